"""Clients for the same cells: the local server, or the real service when the learner asks for it and has a key."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvlab.providers.errors import need
from kvlab.providers.server import LocalServer

if TYPE_CHECKING:
    import anthropic
    import openai

KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


@dataclass(frozen=True)
class Clients:
    """One client of each SDK. `live`: the providers that are the real, paid service. `sentence`: what is used."""

    anthropic: anthropic.Anthropic
    openai: openai.OpenAI
    live: frozenset[str]
    sentence: str


def clients(live: bool, server: LocalServer) -> Clients:
    """Clients for the local server, or with live=True for each real service that has its key in the environment.

    Only live=True ever reaches the real services, and costs money. Print `sentence`: it says what is used.
    """
    real = frozenset(name for name, variable in KEYS.items() if live and os.environ.get(variable))
    return Clients(
        _real_anthropic() if "anthropic" in real else server.anthropic(),
        _real_openai() if "openai" in real else server.openai(),
        real,
        _sentence(live, real, server),
    )


def _real_anthropic() -> anthropic.Anthropic:
    need("anthropic")
    import anthropic

    return anthropic.Anthropic()


def _real_openai() -> openai.OpenAI:
    need("openai")
    import openai

    return openai.OpenAI()


def _sentence(live: bool, real: frozenset[str], server: LocalServer) -> str:
    local = f"the local server at {server.url} (model {server.model_name!r}, no cost)"
    if not live:
        return f"LIVE is False: both SDKs talk to {local}."
    missing = sorted(KEYS[name] for name in KEYS if name not in real)
    if not real:
        return f"LIVE is True, but neither {' nor '.join(missing)} is set: both SDKs talk to {local}."
    paid = " and ".join(sorted(real))
    if missing:
        return f"LIVE is True: {paid} is the real, paid service; without {missing[0]} the other SDK talks to {local}."
    return f"LIVE is True: {paid} are the real, paid services."
