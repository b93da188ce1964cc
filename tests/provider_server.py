"""What the tests of kvlab.providers share: a tiny model in float64, a server with a clock that stands still, texts."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch

from helpers import require
from kvlab.config import ModelConfig
from kvlab.loading import load, random_model
from kvlab.model import Llama
from kvlab.providers import LocalServer, StillClock

SONNET, OPUS, HAIKU = "claude-sonnet-4-6", "claude-opus-5", "claude-haiku-4-5"  # minimum 1024, 512, 4096
EPHEMERAL: Any = {"type": "ephemeral"}
HOUR: Any = {"type": "ephemeral", "ttl": "1h"}
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "washed", "frame", "dog", "was", "in", "of", "to", "it")


@cache
def tiny() -> Llama:
    """One layer, random weights, float64, the primer's tokenizer: 2,000 tokens in a few milliseconds."""
    tokenizer = load("primer", device="cpu").tokenizer
    assert tokenizer is not None
    config = ModelConfig(tokenizer.vocab_size, 32, 1, 2, 1, 16, 64, 8192)
    model = random_model(config, device="cpu", dtype=torch.float64, seed=5)
    model.tokenizer = tokenizer
    return model


@contextlib.contextmanager
def serving(model: Llama | None = None, **options: Any) -> Iterator[LocalServer]:
    """A server on a free port. Skips where the extra `api` is not installed."""
    for package in ("fastapi", "uvicorn", "anthropic", "openai", "httpx"):
        require(package)
    with LocalServer(model or tiny(), **{"clock": StillClock(), "name": "tiny"} | options) as server:
        yield server


def name_a_dead_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a learner behind a proxy, which is not there: what goes to it fails."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for spelled in (name, name.lower()):
            monkeypatch.setenv(spelled, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def words(n: int, seed: int = 0) -> str:
    """A text of about n tokens, of another beginning for every seed."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(n))


def block(text: str, mark: Any = None) -> Any:
    """A text block, marked or not."""
    return {"type": "text", "text": text} | ({} if mark is None else {"cache_control": mark})


def ask(client: Any, system: Any, question: str = "What now?", model: str = SONNET, **options: Any) -> Any:
    """One Messages request; `system` may be a list of blocks."""
    return client.messages.create(
        model=model,
        system=system,
        messages=[{"role": "user", "content": question}],
        **{"max_tokens": 3} | options,
    )


def seen(message: Any) -> tuple[int, int]:
    """Tokens written and read."""
    return message.usage.cache_creation_input_tokens, message.usage.cache_read_input_tokens


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 20 seconds"
        time.sleep(0.01)


def idle(server: LocalServer) -> bool:
    """Nothing is in flight, and every block can be had again."""
    return server._worker.in_flight == 0 and server.engine.blocks.n_used == 0 and not server.engine.requests
