"""Around the local server: LIVE and keys, proxies, arguments that are checked at once, streams that are left."""

import asyncio
import http.server
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from helpers import require
from kvlab.providers import LocalServer, clients
from provider_server import ask, name_a_dead_proxy, serving, tiny

QUESTION = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with serving() as running:
        yield running


def test_live_is_only_live_when_asked_and_keyed(server, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
    local = clients(False, server)
    assert local.live == frozenset() and "LIVE is False" in local.sentence
    assert str(local.openai.base_url).startswith(server.url) and str(local.anthropic.base_url).startswith(server.url)
    half = clients(True, server)
    assert half.live == {"openai"} and "Without ANTHROPIC_API_KEY the other SDK" in half.sentence
    assert "openai: its own service. It may cost money." in half.sentence
    assert "api.openai.com" in str(half.openai.base_url) and str(half.anthropic.base_url).startswith(server.url)
    monkeypatch.delenv("OPENAI_API_KEY")
    neither = clients(True, server)
    assert neither.live == frozenset() and "neither" in neither.sentence


def test_the_local_server_is_reached_past_any_proxy(server, monkeypatch):
    """A proxy would be asked for 127.0.0.1, and would see the prompts of a learner who has said LIVE = False."""
    name_a_dead_proxy(monkeypatch)
    local = clients(False, server)
    assert ask(local.anthropic, "Be kind.").usage.output_tokens == 3
    reply = local.openai.chat.completions.create(model="gpt-4o", messages=QUESTION, max_tokens=3)
    assert reply.usage is not None


@pytest.mark.parametrize("live", ["False", "no", [0], 1, None])
def test_live_is_true_or_false_and_nothing_else(server, monkeypatch, live):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-a-real-key")
    with pytest.raises(ValueError, match="LIVE must be True or False"):
        clients(live, server)


def test_blank_keys_do_not_count_and_a_redirected_address_is_named(server, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "  ")
    monkeypatch.setenv("OPENAI_API_KEY", " sk-not-a-real-key\n")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    found = clients(True, server)
    assert found.live == {"openai"} and str(found.anthropic.base_url).startswith(server.url)
    assert found.openai.api_key == "sk-not-a-real-key"
    assert "openai: http://127.0.0.1:1/v1 (from OPENAI_BASE_URL). It may cost money." in found.sentence
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-a-real-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    monkeypatch.delenv("OPENAI_BASE_URL")
    both = clients(True, server).sentence
    said = (
        "anthropic: https://api.anthropic.com (from ANTHROPIC_BASE_URL); openai: its own service. Both may cost money."
    )
    assert both == f"LIVE is True. {said}"


def test_without_a_network_a_sentence_says_what_to_do(server, monkeypatch):
    clients(False, server).reach()  # the local server is not asked
    for name in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", "sk-not-a-real-key")
        monkeypatch.setenv(f"{name}_BASE_URL", "http://127.0.0.1:1/v1")
        sentence = r"^No network: set LIVE = False in the parameters cell, run that cell, then this one\."
        with pytest.raises(ValueError, match=sentence):
            clients(True, server).reach()
        monkeypatch.delenv(f"{name}_API_KEY")


class Refusing(http.server.BaseHTTPRequestHandler):
    """Answers each question with the status that its path ends with."""

    def do_GET(self) -> None:
        body = b'{"error": {"message": "no"}}'
        self.send_response(int(self.path.split("/")[1]))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_refused_key_is_named_and_any_other_answer_will_do(server, monkeypatch, provider):
    require(provider)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "sk-not-a-real-key")
    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{service.server_address[1]}"
        monkeypatch.setenv(f"{provider.upper()}_BASE_URL", f"{address}/401")
        with pytest.raises(ValueError, match=f"{provider} refuses the key in {provider.upper()}_API_KEY"):
            clients(True, server).reach()
        monkeypatch.setenv(f"{provider.upper()}_BASE_URL", f"{address}/404")
        clients(True, server).reach()
        service.shutdown()


def test_an_answer_that_is_left_leaves_no_task_behind():
    """Whoever waits for the next event is cancelled, as when a client hangs up: nothing goes on waiting for it."""
    require("fastapi")
    from kvlab.providers.exchange import Exchange

    async def never() -> Any:
        await asyncio.Event().wait()

    async def leave() -> list[Any]:
        worker = SimpleNamespace(submit=lambda _: None, cancel=lambda _: None)
        exchange = Exchange(worker, MagicMock(), "openai", SimpleNamespace(receive=never))  # type: ignore[arg-type]
        reader = asyncio.ensure_future(anext(aiter(exchange)))
        await asyncio.sleep(0.01)
        reader.cancel()
        await asyncio.wait({reader})
        exchange.close()
        await asyncio.sleep(0.01)
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert asyncio.run(leave()) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": "x"}, "temperature"),
        ({"clock": 5}, "clock"),
        ({"name": "a\nb"}, "name"),
        ({"keep": -1}, "keep"),
    ],
)
def test_a_server_checks_its_arguments_at_once(change, word):
    with pytest.raises(ValueError, match=word):
        LocalServer(tiny(), **change)


def test_leaving_before_entering_is_a_sentence():
    with pytest.raises(ValueError, match="not running"):
        LocalServer(tiny()).__exit__()
