"""`kvlab measure` against the local server, through the real SDK, and against times that are known."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from helpers import require
from kvlab import endpoint
from kvlab.cli.main import main
from kvlab.providers.loopback import is_loopback
from provider_server import name_a_dead_proxy, serving

require("openai")


def event(text: str | None, usage: Any = None) -> SimpleNamespace:
    return SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(content=text))] if text else [], usage=usage)


def client_of(events: list[SimpleNamespace]) -> Any:
    completions = SimpleNamespace(create=lambda **_: iter(events))
    return SimpleNamespace(chat=SimpleNamespace(completions=completions))


def test_times_of_a_stream() -> None:
    """A role without text comes first, as real servers send it; five tokens in three chunks."""
    usage = SimpleNamespace(
        prompt_tokens=9, completion_tokens=5, prompt_tokens_details=SimpleNamespace(cached_tokens=4)
    )
    ticks = iter([10.0, 10.5, 10.6, 10.9, 11.0])
    answer = endpoint.ask(
        client_of([event(""), event("a"), event("b"), event("cd"), event(None, usage)]), "m", now=lambda: next(ticks)
    )
    assert answer.chunks == pytest.approx((0.5, 0.6, 0.9)) and answer.end == pytest.approx(1.0)
    assert answer.ttft == pytest.approx(0.5)
    assert answer.tpot == pytest.approx(0.4 / 4)
    assert answer.gaps == pytest.approx((0.1, 0.3))
    assert (answer.prompt_tokens, answer.cached_tokens, answer.tokens) == (9, 4, 5)
    assert "500.0" in endpoint.report([answer])


def test_one_token_has_no_time_per_token_and_no_usage_is_no_error() -> None:
    answer = endpoint.ask(client_of([event("a")]), "m")
    assert math.isnan(answer.tpot) and answer.gaps == () and answer.tokens is None
    assert "-" in endpoint.report([answer])


def test_an_answer_without_text_is_refused() -> None:
    with pytest.raises(ValueError, match="sent no text"):
        endpoint.ask(client_of([]), "m")


def test_the_command_times_the_local_server(capsys: pytest.CaptureFixture) -> None:
    with serving() as server:
        assert main(["measure", f"{server.url}/v1", "--tokens", "6", "--repeat", "3"]) == 0
        printed = capsys.readouterr().out
        assert printed.count("\n") == 6 and "median: ttft" in printed
        assert f"for which kvlab's local server runs {server.model_name!r}" in printed
        assert main(["measure", server.url]) == 2
        assert f"Try {server.url}/v1." in capsys.readouterr().err
        assert main(["measure", f"{server.url}/v1", "--model", "nothing"]) == 2
        assert "refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["http://127.0.0.1:9/v1"], "nothing answers"),
        (["127.0.0.1:9"], "must begin with http"),
        (["http://[::1"], "is not an address"),
        (["http://"], "is not an address"),
        (["http://127.0.0.1:99999/v1"], "is not an address"),
        (["http://a b/v1"], "is not an address"),
        (["http://127.0.0.1:9/v1", "--prompt", ""], "--prompt needs a question"),
        (["http://127.0.0.1:9/v1", "--prompt", "\udcff"], "valid UTF-8"),
        (["http://127.0.0.1:9/v1", "--repeat", "0"], "at least 1"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["measure", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_empty_key_counts_as_none_and_a_broken_one_is_named(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server:
        short = ["measure", f"{server.url}/v1", "--tokens", "2", "--repeat", "1"]
        monkeypatch.setenv("OPENAI_API_KEY", "  ")
        assert main(short) == 0 and "median" in capsys.readouterr().out
        for broken in ("one\ntwo", "ключ"):
            monkeypatch.setenv("OPENAI_API_KEY", broken)
            assert main(short) == 2
            assert "OPENAI_API_KEY holds" in capsys.readouterr().err


def test_this_machine_is_measured_past_any_proxy(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_a_dead_proxy(monkeypatch)
    with serving() as server:
        assert main(["measure", f"{server.url}/v1", "--tokens", "2", "--repeat", "1"]) == 0
        assert "median" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.8.0.1", True),
        ("http://localhost:1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://10.0.0.1", False),
        ("http://localhost.example.org", False),
        ("http://127.0.0.1@example.org", False),
    ],
)
def test_which_addresses_are_this_machine(url: str, here: bool) -> None:
    assert is_loopback(url) == here
