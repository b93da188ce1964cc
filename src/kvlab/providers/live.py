"""Clients for the same cells: the local server, or the real service when the learner asks for it and has a key."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvlab.providers.errors import need
from kvlab.providers.server import LocalServer

if TYPE_CHECKING:
    import anthropic
    import openai

KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_BACK = "set LIVE = False in the parameters cell, run that cell, then this one."
HOSTS = {"anthropic": "api.anthropic.com", "openai": "api.openai.com"}


@dataclass(frozen=True)
class Clients:
    """One client of each SDK. `live`: the providers that leave the local server. `sentence`: what is used."""

    anthropic: anthropic.Anthropic
    openai: openai.OpenAI
    live: frozenset[str]
    sentence: str

    def reach(self) -> None:
        """Ask each real service for nothing, so that what stands in the way shows before anything is paid for.

        Raises ValueError, with what to do, when there is no connection or a key is refused.
        """
        for name in sorted(self.live):
            _ask_for_nothing(name, getattr(self, name))


def clients(live: bool, server: LocalServer) -> Clients:
    """Clients for the local server, or with live=True for each real service that has its key in the environment.

    Only live=True ever reaches the real services, and costs money; what is neither True nor False raises ValueError.
    Print `sentence`: it says what is used.
    """
    if live is not True and live is not False:
        raise ValueError(f"LIVE must be True or False, got {live!r:.40}: True pays for the real services")
    keys = {name: os.environ.get(variable, "").strip() for name, variable in KEYS.items() if live}
    keys = {name: key for name, key in keys.items() if key}
    ours = _real_anthropic(keys["anthropic"]) if "anthropic" in keys else server.anthropic()
    theirs = _real_openai(keys["openai"]) if "openai" in keys else server.openai()
    addresses = {"anthropic": str(ours.base_url), "openai": str(theirs.base_url)}
    sentence = _sentence(live, {name: addresses[name] for name in keys}, server)
    return Clients(ours, theirs, frozenset(keys), sentence)


def _real_anthropic(key: str) -> anthropic.Anthropic:
    need("anthropic")
    import anthropic

    return anthropic.Anthropic(api_key=key)


def _real_openai(key: str) -> openai.OpenAI:
    need("openai")
    import openai

    return openai.OpenAI(api_key=key)


def _sentence(live: bool, real: dict[str, str], server: LocalServer) -> str:
    """`real`: the address of each provider that is not the local server."""
    local = f"the local server at {server.url} (model {server.model_name!r}, no cost)"
    if not live:
        return f"LIVE is False: both SDKs talk to {local}."
    missing = sorted(KEYS[name] for name in KEYS if name not in real)
    if not real:
        return f"LIVE is True, but neither {' nor '.join(missing)} is set: both SDKs talk to {local}."
    called = "; ".join(f"{name}: {_called(name, real[name])}" for name in sorted(real))
    if missing:
        return f"LIVE is True. {called}. It may cost money. Without {missing[0]} the other SDK talks to {local}."
    return f"LIVE is True. {called}. Both may cost money."


def _called(name: str, address: str) -> str:
    """What a provider's client talks to; an address that was set outside this course is named, with where it is from."""
    variable = f"{name.upper()}_BASE_URL"
    if os.environ.get(variable):
        return f"{address.rstrip('/')} (from {variable})"
    if address.startswith(f"https://{HOSTS[name]}/"):
        return "its own service"
    return f"{address.rstrip('/')} (from the SDK's settings)"


def _ask_for_nothing(name: str, client: Any) -> None:
    """List the models, which is free. Any answer will do, but one that refuses the key."""
    sdk = importlib.import_module(name)
    try:
        client.with_options(timeout=10.0, max_retries=0).models.list()
    except sdk.APIConnectionError:
        raise ValueError(f"No network: {_BACK} ({name} at {client.base_url} can't be reached.)") from None
    except sdk.AuthenticationError:
        raise ValueError(f"{name} refuses the key in {KEYS[name]}. Correct it, or {_BACK}") from None
    except sdk.APIStatusError:
        pass
