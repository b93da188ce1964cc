"""OpenAI's SDK, unmodified, against the local server: automatic caching, sampling options, streams, refusals."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kvlab.providers import LocalServer, as_usage, cost, openai_cached_tokens, request_cost
from kvlab.providers.prices import model as price_row
from provider_server import serving, words


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with serving() as running:
        yield running


@pytest.fixture
def client(server: LocalServer, request: pytest.FixtureRequest) -> Any:
    return server.openai(api_key=request.node.name)


def chat(client: Any, system: str, question: str = "What now?", model: str = "gpt-4o", **options: Any) -> Any:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return client.chat.completions.create(model=model, messages=messages, **{"max_tokens": 3} | options)


def cached(answer: Any) -> int:
    return answer.usage.prompt_tokens_details.cached_tokens


def test_the_second_request_reads_whole_steps_and_computes_the_rest(server, client):
    system = words(2000)
    first, second = chat(client, system, "one"), chat(client, system, "another one")
    assert cached(first) == 0
    shared = second.usage.prompt_tokens - 30
    assert cached(second) == openai_cached_tokens(shared) >= 1920
    stats = server.stats(second.id)
    assert stats.from_cache == cached(second)
    assert stats.computed == second.usage.prompt_tokens - stats.from_cache < 0.1 * server.stats(first.id).computed


@pytest.mark.parametrize("n", [980, 1100, 1300])
def test_steps_of_128_from_1024(client, n):
    """The same prompt twice: everything up to the last whole step, and one token is always computed."""
    chat(client, words(n, n))
    again = chat(client, words(n, n))
    assert cached(again) == openai_cached_tokens(again.usage.prompt_tokens - 1)


def test_a_change_in_the_middle_keeps_what_stands_before_it(client):
    one, two = words(1400, 1), words(800, 2)
    chat(client, f"{one} {two}")
    kept = cached(chat(client, f"{one} but {two}"))
    assert 1280 <= kept <= 1408 and kept % 128 == 0
    assert cached(chat(client, f"now: {one} {two}")) == 0


def test_ten_minutes_without_use(server, client):
    system = words(1500, 3)
    chat(client, system)
    for _ in range(3):
        server.advance(599)
        assert cached(chat(client, system)) > 0
    server.advance(600)
    late = chat(client, system)
    assert cached(late) == 0 and server.stats(late.id).from_cache == 0


def test_a_day_of_retention(server, client):
    system = words(1500, 4)
    for _ in range(2):
        chat(client, system, prompt_cache_retention="24h")
        server.advance(23 * 3600)
    assert cached(chat(client, system)) > 0


def test_keys_of_the_organisation_and_of_the_cache(server, client):
    system = words(1500, 5)
    chat(client, system, prompt_cache_key="a")
    assert cached(chat(client, system, prompt_cache_key="b")) == 0
    assert cached(chat(client, system, prompt_cache_key="a")) > 0
    other = server.openai("another organisation")
    assert cached(chat(other, system, prompt_cache_key="a")) == 0
    assert cached(chat(client, system, prompt_cache_key="a", model="gpt-4.1")) == 0


def test_the_two_providers_share_nothing(server, client):
    system = words(1500, 6)
    chat(client, system)
    messages: Any = [{"role": "user", "content": "What now?"}]
    marked: Any = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    answer = server.anthropic(client.api_key).messages.create(
        model="claude-opus-5", max_tokens=2, system=marked, messages=messages
    )
    assert answer.usage.cache_read_input_tokens == 0 == server.stats(answer.id).from_cache


def test_a_stream_is_the_whole_answer_and_ends_with_its_usage(client):
    whole = chat(client, words(1200, 7), max_tokens=12)
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(chat(client, words(1200, 7), max_tokens=12, **options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.usage is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    last = chunks[-1].usage
    assert last.prompt_tokens_details.cached_tokens == openai_cached_tokens(last.prompt_tokens - 1)
    assert (last.prompt_tokens, last.completion_tokens) == (whole.usage.prompt_tokens, whole.usage.completion_tokens)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[:-1] == [None] * (len(reasons) - 1) and reasons[-1] == whole.choices[0].finish_reason
    without = list(chat(client, "Hello", stream=True))
    assert all(chunk.usage is None and chunk.choices for chunk in without)


def test_logit_bias_forces_a_choice(server, client):
    token = server.model.tokenizer.encode(" cat", bos=False)
    assert len(token) == 1
    answer = chat(client, "Hello", max_tokens=4, logit_bias={str(token[0]): 100})
    assert answer.choices[0].message.content == " cat" * 4 and answer.choices[0].finish_reason == "length"


def test_seed_temperature_and_stop(client):
    def text(**options: Any) -> str:
        return str(chat(client, "Hello", max_tokens=24, **options).choices[0].message.content)

    assert text(temperature=1.5, seed=4) == text(temperature=1.5, seed=4)
    assert len({text(temperature=1.5, seed=seed) for seed in range(4)}) > 1
    assert text(temperature=1.5, top_p=0) == text(temperature=0) == text()
    greedy = text()
    stopped = chat(client, "Hello", max_tokens=24, stop=greedy[5:9]).choices[0]
    assert stopped.finish_reason == "stop" and stopped.message.content == greedy[: greedy.index(greedy[5:9])]


def test_fifty_random_conversations_add_up(server):
    rng = random.Random(12)
    client, hits = server.openai("many"), 0
    for _ in range(50):
        model = rng.choice(["gpt-4o", "gpt-4.1", "gpt-5.2"])
        messages: Any = [{"role": "system", "content": words(rng.choice([400, 900, 1500]), rng.randrange(2))}]
        for _ in range(rng.randint(1, 3)):
            messages.append({"role": "user", "content": words(rng.randint(1, 300), rng.randrange(3))})
            answer = client.chat.completions.create(model=model, messages=messages, max_completion_tokens=2)
            usage, stats, row = answer.usage, server.stats(answer.id), price_row(model)
            read = cached(answer)
            assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
            assert stats.prompt == usage.prompt_tokens == stats.computed + stats.from_cache
            assert stats.from_cache == read == openai_cached_tokens(read)
            wanted = (usage.prompt_tokens - read) * row.input + read * row.cache_read
            wanted += usage.completion_tokens * row.output
            assert cost(usage, model) == pytest.approx(wanted / 1e6, abs=1e-9)
            assert request_cost(as_usage(usage), row.per_million()) == pytest.approx(wanted / 1e6, abs=1e-9)
            hits += read > 0
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
            server.advance(rng.choice([1, 200, 700]))
    assert hits > 10


def test_refusals_are_the_services_own(client):
    import openai

    def refused(match: str, code: str | None, param: str | None, kind: Any = openai.BadRequestError, **options: Any):
        with pytest.raises(kind, match=match) as info:
            chat(client, "Hello", **options)
        assert (info.value.code, info.value.param) == (code, param)

    refused("does not exist", "model_not_found", "model", openai.NotFoundError, model="gpt-99")
    refused("does not exist", "model_not_found", "model", openai.NotFoundError, model="gpt-5.6-sol")
    refused("Unknown parameter: 'colour'", "unknown_parameter", "colour", extra_body={"colour": 1})
    refused("Invalid type for 'temperature'", "invalid_type", "temperature", extra_body={"temperature": "hot"})
    refused("Invalid value for 'top_p'", "invalid_value", "top_p", extra_body={"top_p": 2})
    refused(
        "Invalid type for 'messages",
        "invalid_type",
        "messages[1].content[0].text",
        question=[{"type": "text", "text": 3}],
    )
    refused("should only be using token ids", None, "logit_bias", logit_bias={"yes": 5})
    refused("between -100 and 100", None, "logit_bias", logit_bias={"3": 500})
    refused("maximum context length is 8192", "context_length_exceeded", "messages", question=words(9000))
    refused("only allowed when 'stream'", None, "stream_options", stream_options={"include_usage": True})
    refused(
        "no 'prompt_cache_options'",
        "unsupported_parameter",
        "prompt_cache_options",
        extra_body={"prompt_cache_options": {"mode": "explicit"}},
    )
    refused("ids run from 0", None, None, logit_bias={"99999": 5})
    refused("Invalid value for 'n'", "invalid_value", "n", n=2)
    with pytest.raises(openai.BadRequestError, match="Missing required parameter: 'messages'"):
        client.post("/chat/completions", body={"model": "gpt-4o"}, cast_to=object)


def test_the_list_of_models(client):
    names = [item.id for item in client.models.list()]
    assert "gpt-4o" in names and "gpt-5.6-sol" not in names
