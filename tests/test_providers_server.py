"""The server itself: hostile input, clients that leave, many at once, ports, keys, the command."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kvlab.cli.main import main
from kvlab.loading import load
from kvlab.providers import LocalServer, SkipClock
from kvlab.providers.loopback import direct_client
from provider_server import (
    EPHEMERAL,
    SONNET,
    ask,
    block,
    idle,
    seen,
    serving,
    tiny,
    wait_for,
    words,
)

QUESTION = [{"role": "user", "content": "Hello"}]
ROUTES = {
    "/v1/messages": ({"x-api-key": "k", "anthropic-version": "2023-06-01"}, {"model": SONNET, "max_tokens": 2}),
    "/v1/chat/completions": ({"authorization": "Bearer k"}, {"model": "gpt-4o", "max_tokens": 2}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with serving() as running:
        yield running


def post(server: LocalServer, path: str, content: bytes, headers: dict[str, str] | None = None) -> Any:
    import httpx

    headers = ROUTES[path][0] if headers is None else headers
    return httpx.post(server.url + path, content=content, headers=headers, timeout=60, trust_env=False)


def message_of(path: str, response: Any) -> str:
    """The sentence of a refusal, after a look at its shape."""
    body = response.json()
    if path == "/v1/messages":
        assert set(body) == {"type", "error", "request_id"} and body["type"] == "error"
        assert set(body["error"]) == {"type", "message"}
    else:
        assert set(body) == {"error"} and set(body["error"]) == {"message", "type", "param", "code"}
    return str(body["error"]["message"])


BAD = [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"{" * 100_000, b'{"model": NaN}', b'{"a":1e999}']
PATHS = list(ROUTES)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
def test_what_is_no_request(server, path, content):
    response = post(server, path, content)
    assert response.status_code == 400 and message_of(path, response)


@pytest.mark.parametrize("path", PATHS)
def test_wrong_types_everywhere(server, path):
    """Every field in turn holds something that it must not; the server says so and lives on."""
    good = ROUTES[path][1] | {"messages": QUESTION}
    assert post(server, path, json.dumps(good).encode()).status_code == 200
    for field in (*good, "stream", "temperature", "top_p", "tools", "metadata"):
        for wrong in ({"a": 1}, ["x"], "x" if field != "model" else 3, -1, True, 10**30):
            if field in ("stream",) and wrong is True:
                continue
            if field == "model" and isinstance(wrong, str):
                continue
            response = post(server, path, json.dumps(good | {field: wrong}).encode())
            assert response.status_code in (400, 404), (field, wrong, response.text)
            assert message_of(path, response)
    surrogate = json.dumps(good | {"messages": [{"role": "user", "content": "\ud800"}]}).encode()
    assert "half a character" in message_of(path, post(server, path, surrogate))
    assert idle(server)


@pytest.mark.parametrize("path", PATHS)
def test_half_a_character_anywhere_is_refused_in_the_shape_of_the_service(server, path):
    """In a key, in a name, in a list, and as raw bytes."""
    good = ROUTES[path][1] | {"messages": QUESTION}
    bodies = [good | {"\ud800": 1}, good | {"model": "\ud800"}, good | {"metadata": {"a": ["\udfff"]}}]
    raw = json.dumps(good | {"model": "X"}).encode().replace(b'"X"', b'"\xed\xa0\x80"')
    for content in (*(json.dumps(body).encode() for body in bodies), raw):
        response = post(server, path, content)
        assert response.status_code == 400 and "half a character" in message_of(path, response)
    whole = json.dumps(good | {"messages": [{"role": "user", "content": "\U0001f600"}]}).encode()  # sent as a pair
    assert post(server, path, whole).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_a_body_of_ten_megabytes(server, path):
    large = json.dumps(ROUTES[path][1] | {"messages": [{"role": "user", "content": "a" * 10**7}]}).encode()
    response = post(server, path, large)
    assert response.status_code == 413 and "4 MiB" in message_of(path, response)
    long = json.dumps(ROUTES[path][1] | {"messages": [{"role": "user", "content": words(60_000)}]}).encode()
    assert "8192" in message_of(path, post(server, path, long))
    assert post(server, path, json.dumps(ROUTES[path][1] | {"messages": QUESTION}).encode()).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_no_key_and_no_such_address(server, path):
    import httpx

    response = post(server, path, b"{}", headers={})
    assert response.status_code == 401 and "key" in message_of(path, response).lower()
    assert post(server, path, b"{}", headers={"authorization": "Bearer"}).status_code == 401
    wrong = httpx.get(server.url + path, headers=ROUTES[path][0], trust_env=False)
    assert wrong.status_code == 405 and message_of(path, wrong)
    assert httpx.get(server.url + "/v2/nothing", trust_env=False).status_code == 404


def test_it_says_who_answers(server):
    import httpx

    about = httpx.get(server.url, trust_env=False)
    assert server.model_name in about.text and "not the point" in about.text
    answer = post(server, "/v1/messages", json.dumps(ROUTES["/v1/messages"][1] | {"messages": QUESTION}).encode())
    assert answer.headers["x-kvlab-model"] == server.model_name and answer.headers["request-id"].startswith("req_")
    stats = httpx.get(server.url + "/stats", trust_env=False).json()
    latest = stats["requests"][-1]
    assert latest["id"] == answer.json()["id"] and latest["computed"] == latest["prompt"] and stats["in_flight"] == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_frees_its_blocks(server, stream):
    """Mid-stream, and while it waits for a whole answer."""
    import httpx

    body = ROUTES["/v1/chat/completions"][1] | {"messages": QUESTION, "max_tokens": 8000, "stream": stream}
    eos = server.model.tokenizer.eos_id
    body["logit_bias"] = {str(eos): -100}
    before = len(server.requests)
    with httpx.Client(timeout=0.5, trust_env=False) as client:
        request = client.build_request(
            "POST", server.url + "/v1/chat/completions", json=body, headers={"authorization": "Bearer k"}
        )
        if stream:
            response = client.send(request, stream=True)
            lines = response.iter_lines()
            for _ in range(8):
                next(lines)
            assert server._worker.in_flight == 1 and server.engine.blocks.n_used > 0
            response.close()
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.send(request)
    wait_for(lambda: idle(server))
    wait_for(lambda: len(server.requests) > before)
    assert server.requests[-1].ended == "cancelled" and server.requests[-1].output < 8000
    server.engine.blocks.check()


def test_a_step_that_fails_is_told_and_the_server_lives_on(server, monkeypatch):
    import anthropic

    client = server.anthropic("failing")

    def fail() -> Any:
        raise RuntimeError("the model is on fire")

    with monkeypatch.context() as patch:
        patch.setattr(server.engine, "step", fail)
        with pytest.raises(anthropic.InternalServerError, match="on fire") as info:
            ask(client, "Be kind.")
        assert info.value.body["error"]["type"] == "api_error"
    assert idle(server)
    assert ask(client, "Be kind.").usage.output_tokens == 3


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_request_without_a_next_token_is_told_and_its_neighbour_goes_on(server, monkeypatch, path, stream):
    """The second token of one request cannot be chosen, while another one is being answered."""
    from kvlab.engine import engine

    true_choose = engine.choose

    def choose(logits: Any, settings: Any, tokens: Any, context: Any, generator: Any) -> int:
        if settings.temperature == 0.5 and len(tokens) > len(context.prompt_ids):
            raise ValueError("nothing is left")
        return true_choose(logits, settings, tokens, context, generator)

    monkeypatch.setattr(engine, "choose", choose)
    body = ROUTES[path][1] | {"messages": QUESTION, "max_tokens": 9}
    before = len(server.requests)
    answers: list[Any] = []
    neighbour = threading.Thread(
        target=lambda: answers.append(post(server, path, json.dumps(body | {"max_tokens": 60}).encode()))
    )
    neighbour.start()
    response = post(server, path, json.dumps(body | {"temperature": 0.5, "stream": stream}).encode())
    neighbour.join()
    assert "The local server failed: no token could be chosen (nothing is left)" in response.text
    if stream:  # it had begun
        assert response.status_code == 200 and '"error"' in response.text
    else:
        assert response.status_code == 500 and message_of(path, response)
    assert answers[0].status_code == 200
    wait_for(lambda: len(server.requests) == before + 2)
    assert sorted(request.ended == "failed" for request in server.requests[-2:]) == [False, True]
    wait_for(lambda: idle(server))
    server.engine.blocks.check()
    assert post(server, path, json.dumps(body).encode()).status_code == 200


def test_a_port_in_use_is_one_sentence(server):
    with (
        pytest.raises(OSError, match=f"port {server.port} cannot be used .* choose another one"),
        serving(port=server.port),
    ):
        pass
    for port in (0, 65536, "a"):
        with pytest.raises(ValueError):
            LocalServer(tiny(), port=port)


def test_a_server_runs_once_and_gives_everything_back():
    before = set(threading.enumerate())
    with serving() as first:
        port = first.port
        assert ask(first.anthropic(), "Be kind.").usage.output_tokens == 3
    with pytest.raises(ValueError, match="not running"):
        _ = first.url
    with pytest.raises(ValueError, match="runs once"):
        first.__enter__()
    with serving(port=port) as second:
        assert second.port == port
    left = {thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()}
    assert not any(name.startswith("kvlab-") for name in left)


def test_stopping_ends_what_is_in_flight():
    """A stream that still runs gets an error, and the server is gone at once."""
    import openai

    with serving() as server:
        bias: Any = {str(server.model.tokenizer.eos_id): -100}
        stream = server.openai().chat.completions.create(
            model="gpt-4o", messages=QUESTION, max_tokens=8000, stream=True, logit_bias=bias
        )
        next(iter(stream))
        begun = time.monotonic()
    with pytest.raises(openai.APIError, match="stopping"):
        list(stream)
    assert time.monotonic() - begun < 20


def test_the_primer_in_float32_saves_nine_tenths_of_the_work():
    """What the notebook shows, with the real model: 2,000 shared tokens, and the second request computes the rest."""
    with serving(load("primer", device="cpu"), clock=SkipClock()) as server:
        client = server.anthropic()
        system = [block(words(2000), EPHEMERAL)]
        cold, warm = (server.stats(ask(client, system, question).id) for question in ("one", "two"))
        assert warm.read == cold.written >= 2000 and warm.computed < 0.1 * cold.computed
        assert cold.ttft > 0 and warm.ttft > 0
        server.advance(301)
        assert seen(ask(client, system, "three"))[1] == 0
        with pytest.raises(ValueError, match="no figures"):
            server.stats("msg_unknown")


def test_only_an_address_that_shows_no_certificate_is_reached_without_reading_any(monkeypatch):
    read = []
    load = ssl.SSLContext.load_verify_locations
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *a, **k: read.append(a) or load(*a, **k))
    import openai

    for address, lists in (("http://127.0.0.1:1/v1", 0), ("https://127.0.0.1:1/v1", 1)):
        read.clear()
        direct_client(openai.OpenAI, openai, base_url=address, api_key="k")
        assert len(read) == lists, address


@pytest.mark.skipif(os.name != "posix", reason="the command is stopped with a POSIX signal")
def test_the_command_serves_until_it_is_interrupted(capsys):
    import openai

    command = [sys.executable, "-m", "kvlab", "serve", "--model", "primer-draft"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert found is not None
            client = direct_client(openai.OpenAI, openai, base_url=f"{found[0]}/v1", api_key="k", max_retries=0)
            reply = client.chat.completions.create(model="gpt-4o", messages=QUESTION, max_tokens=3)
            assert reply.usage is not None and reply.usage.prompt_tokens > 5
            assert main(["serve", "--model", "primer-draft", "--port", found[1]]) == 2
            assert re.fullmatch(r"kvlab serve: port \d+ cannot be used .*\n", capsys.readouterr().err)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 130
        finally:
            process.kill()
    assert main(["serve", "--model", "nothing"]) == 2
    assert "there is no model 'nothing'" in capsys.readouterr().err
