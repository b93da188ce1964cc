"""Anthropic's SDK, unmodified, against the local server: what is written, read, refreshed, expired, and said."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kvlab.providers import LocalServer, cost, merge_usage, request_cost
from kvlab.providers.prices import model as price_row
from provider_server import EPHEMERAL, HAIKU, HOUR, OPUS, SONNET, ask, block, seen, serving, words


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with serving() as running:
        yield running


@pytest.fixture
def client(server: LocalServer, request: pytest.FixtureRequest) -> Any:
    """A client with a key, and so a cache, of its own."""
    return server.anthropic(api_key=request.node.name)


def total(message: Any) -> int:
    return sum(seen(message)) + message.usage.input_tokens


def test_written_then_read_and_the_engine_computes_only_the_rest(server, client):
    system = [block(words(2000), EPHEMERAL)]
    first, second = ask(client, system, "one"), ask(client, system, "two words more")
    written, read = seen(first)
    assert read == 0 and written > 2000 and first.usage.input_tokens < 25
    assert seen(second) == (0, written)
    assert first.usage.cache_creation.ephemeral_5m_input_tokens == written
    ours, theirs = server.stats(second.id), server.stats(first.id)
    assert theirs.from_cache == 0 and theirs.computed == theirs.prompt == total(first)
    assert ours.from_cache == written // 16 * 16
    assert ours.computed == total(second) - ours.from_cache < 0.1 * theirs.computed


def test_a_cached_answer_is_the_uncached_one(server, client):
    system = [block(words(1500, 1), EPHEMERAL)]
    ask(client, system)
    hit = ask(client, system, "Tell me", max_tokens=12)
    cold = ask(server.anthropic("somebody else"), system, "Tell me", max_tokens=12)
    assert seen(hit)[1] > 0 == seen(cold)[1]
    assert hit.content[0].text == cold.content[0].text and hit.usage.output_tokens == cold.usage.output_tokens


def test_without_a_mark_nothing_is_written_or_read(server, client):
    text = words(1500, 2)
    ask(client, [block(text, EPHEMERAL)])
    plain = ask(client, text)
    assert seen(plain) == (0, 0) and server.stats(plain.id).from_cache == 0


@pytest.mark.parametrize(("model", "tokens"), [(OPUS, 700), (SONNET, 1200), (HAIKU, 4300)])
def test_the_minimum_of_each_model(client, model, tokens):
    minimum = price_row(model).minimum
    assert minimum is not None
    assert seen(ask(client, [block(words(tokens), EPHEMERAL)], model=model))[0] >= minimum
    below = [block(words(minimum - 60, 9), EPHEMERAL)]
    assert [seen(ask(client, below, model=model)) for _ in range(2)] == [(0, 0), (0, 0)]


def test_the_minimum_is_exact(client):
    """A prefix of exactly the minimum is written, one token less is not."""
    text = words(1100, 4)

    def prefix(n: int) -> int:
        """Tokens up to the mark: all but what an unmarked request would add behind it."""
        with_it = client.messages.count_tokens(model=SONNET, system=" ".join(text.split()[:n]), messages=QUESTION)
        return with_it.input_tokens - tail

    tail = ask(client, [block(text, EPHEMERAL)]).usage.input_tokens
    guess = 1024 - prefix(1000) + 1000  # about one token for each word
    n = next(n for n in range(guess - 8, guess + 9) if prefix(n) >= 1024)
    for count, wanted in ((n, prefix(n)), (n - 1, 0)):
        marked = [block(" ".join(text.split()[:count]), EPHEMERAL)]
        assert seen(ask(client, marked, model=SONNET)) in ((wanted, 0), (0, wanted))
    assert prefix(n - 1) < 1024


QUESTION: Any = [{"role": "user", "content": "What now?"}]


def test_five_minutes_from_the_start_of_the_last_use(server, client):
    system = [block(words(1300, 5), EPHEMERAL)]
    written = seen(ask(client, system))[0]
    for _ in range(3):  # each read begins the time again
        server.advance(299)
        assert seen(ask(client, system)) == (0, written)
    server.advance(300)
    again = ask(client, system)
    assert seen(again) == (written, 0) and server.stats(again.id).from_cache == 0


def test_an_hour(server, client):
    system = [block(words(1300, 6), HOUR)]
    first = ask(client, system)
    assert first.usage.cache_creation.ephemeral_1h_input_tokens == seen(first)[0] > 0
    assert first.usage.cache_creation.ephemeral_5m_input_tokens == 0
    server.advance(3599)
    assert seen(ask(client, system))[1] > 0
    server.advance(3600)
    assert seen(ask(client, system))[1] == 0


def test_an_hour_before_five_minutes(server, client):
    system = [block(words(1300, 7), HOUR), block(words(1300, 8), EPHEMERAL)]
    first = ask(client, system).usage
    hour, five = first.cache_creation.ephemeral_1h_input_tokens, first.cache_creation.ephemeral_5m_input_tokens
    assert hour > 1200 < five and hour + five == first.cache_creation_input_tokens
    server.advance(400)
    second = ask(client, system).usage
    assert (second.cache_read_input_tokens, second.cache_creation.ephemeral_5m_input_tokens) == (hour, five)
    assert second.cache_creation.ephemeral_1h_input_tokens == 0


def test_a_longer_prompt_reads_what_is_there_and_writes_the_rest(client):
    one, two = words(1200, 10), words(600, 11)
    first = seen(ask(client, [block(one, EPHEMERAL)]))[0]
    grown = seen(ask(client, [block(one), block(two, EPHEMERAL)]))
    assert grown[1] == first and 500 < grown[0] < 700
    changed = seen(ask(client, [block("now: " + one), block(two, EPHEMERAL)]))
    assert changed[1] == 0 and changed[0] > sum(grown)


def test_a_breakpoint_looks_back_over_twenty_blocks(client):
    """An entry 19 blocks before the breakpoint is found, one 20 before is not: the breakpoint itself is the first."""
    head = block(words(1100, 12), EPHEMERAL)
    written = seen(ask(client, [head]))[0]
    for added, read in ((19, written), (20, 0)):
        blocks = [block(words(1100, 12)), *(block(f"part {i} of {added}") for i in range(added - 1))]
        assert seen(ask(client, [*blocks, block("the end", EPHEMERAL)]))[1] == read


def test_reads_land_only_where_a_breakpoint_was(client):
    """The first block alone was never the end of an entry."""
    one, two = words(1100, 13), words(1100, 14)
    ask(client, [block(one), block(two, EPHEMERAL)])
    assert seen(ask(client, [block(one, EPHEMERAL), block("something else")]))[1] == 0


def test_the_automatic_breakpoint_moves_with_the_conversation(server, client):
    messages: list[Any] = [{"role": "user", "content": words(1100, 15)}]
    held = 0
    for turn in range(4):
        answer = client.messages.create(model=SONNET, max_tokens=5, messages=messages, cache_control=EPHEMERAL)
        written, read = seen(answer)
        assert read == held and written > 0
        held = read + written
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": f"And {turn}?"}]


def test_static_first_against_query_first(client):
    document = words(1500, 16)

    def run(blocks: list[Any]) -> int:
        question: Any = [{"role": "user", "content": blocks}]
        return seen(client.messages.create(model=SONNET, max_tokens=1, messages=question))[1]

    static = [run([block(document, EPHEMERAL), block(f"Question {i}?")]) for i in range(3)]
    query = [run([block(f"Question {i}?"), block(document, EPHEMERAL)]) for i in range(3)]
    assert static[0] == 0 and static[1] == static[2] > 1400
    assert query == [0, 0, 0]


def test_tools_come_first_and_their_order_counts(client):
    tools: list[Any] = [
        {"name": name, "description": words(600, i), "input_schema": {"type": "object", "properties": {}}}
        for i, name in enumerate(("look", "find"))
    ]

    def run(tools: list[Any], **options: Any) -> tuple[int, int]:
        return seen(ask(client, [block("Be kind.", EPHEMERAL)], tools=tools, **options))

    written = run(tools)[0]
    assert run(tools) == (0, written)
    assert run(tools, tool_choice={"type": "auto"}) == (0, written), "it stands behind the system prompt"
    assert run(tools[::-1])[1] == 0
    turned = tools[0] | {"input_schema": {"properties": {}, "type": "object"}}
    assert run([turned, tools[1]])[1] == 0, "the order of JSON keys counts"


def test_two_keys_and_two_models_share_nothing(server, client):
    system = [block(words(1300, 17), EPHEMERAL)]
    written = seen(ask(client, system))[0]
    other = ask(server.anthropic("another organisation"), system)
    assert seen(other) == (written, 0) and server.stats(other.id).from_cache == 0
    assert seen(ask(client, system, model=OPUS))[1] == 0
    assert seen(ask(client, system)) == (0, written)


def test_prewarming_writes_and_says_nothing(client):
    system = [block(words(1300, 18), EPHEMERAL)]
    warm = ask(client, system, "warm up", max_tokens=0)
    assert warm.content == [] and warm.usage.output_tokens == 0 and warm.stop_reason == "max_tokens"
    assert seen(ask(client, system)) == (0, seen(warm)[0])


def test_the_events_of_a_stream_and_its_usage_counted_once(client):
    import anthropic

    system = [block(words(1300, 19), EPHEMERAL)]
    whole = ask(client, system, max_tokens=9)
    written = seen(whole)[0]
    events = list(ask(client, system, max_tokens=9, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) <= {"ping", "content_block_delta"}
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == whole.content[0].text
    usages = [event.message.usage for event in events if event.type == "message_start"]
    usages += [event.usage for event in events if event.type == "message_delta"]
    merged = merge_usage([usage.model_dump() for usage in usages])
    assert merged["cache_read_input_tokens"] == written and merged["output_tokens"] == whole.usage.output_tokens
    with client.messages.stream(model=SONNET, max_tokens=9, system=system, messages=QUESTION) as stream:
        final = stream.get_final_message()
    assert isinstance(final, anthropic.types.Message) and final.content[0].text == whole.content[0].text
    assert final.usage.output_tokens == whole.usage.output_tokens and seen(final) == (0, written)


def test_a_stop_sequence_that_spans_tokens(client):
    text = ask(client, "Go", max_tokens=40).content[0].text
    stop = text[7:13]
    cut = ask(client, "Go", max_tokens=40, stop_sequences=["never this", stop])
    assert cut.stop_reason == "stop_sequence" and cut.stop_sequence == stop
    assert cut.content[0].text == text[: text.index(stop)]


def test_count_tokens_is_the_sum_of_the_three(client):
    system = [block(words(1300, 20), EPHEMERAL)]
    counted = client.messages.count_tokens(model=SONNET, system=system, messages=QUESTION).input_tokens
    assert counted == total(ask(client, system)) == total(ask(client, system))


def test_fifty_random_conversations_add_up(server):
    """Input, written and read are the whole prompt, and the bill is the calculator's."""
    rng = random.Random(11)
    customers = [server.anthropic(f"customer {number}") for number in range(3)]
    hits = 0
    for _ in range(50):
        client, model, ttl = rng.choice(customers), rng.choice([OPUS, SONNET]), rng.choice([EPHEMERAL, HOUR])
        system = [block(words(rng.choice([300, 700, 1200]), rng.randrange(2)), rng.choice([None, HOUR, HOUR]))]
        messages: list[Any] = []
        bill = wanted = 0.0
        for turn in range(rng.randint(1, 3)):
            text = words(rng.randint(1, 400), rng.randrange(3))
            mark = rng.choice([None, ttl]) if turn < 2 else None  # with the system's, never more than four
            messages.append({"role": "user", "content": [block(text, mark)]})
            prompt: Any = {"model": model, "system": system, "messages": messages}
            answer = client.messages.create(max_tokens=rng.randint(1, 4), **prompt)
            assert total(answer) == client.messages.count_tokens(**prompt).input_tokens
            stats, usage = server.stats(answer.id), answer.usage
            assert stats.computed + stats.from_cache == total(answer)
            assert 0 <= usage.cache_read_input_tokens - stats.from_cache < 16
            hits += usage.cache_read_input_tokens > 0
            row, hour = price_row(model), usage.cache_creation.ephemeral_1h_input_tokens
            bill += cost(usage, model)
            wanted += request_cost(usage.model_dump(), row.per_million())
            wanted += hour * (row.cache_write_1h - row.cache_write) / 1e6
            messages.append({"role": "assistant", "content": [block(answer.content[0].text or "-")]})
            server.advance(rng.choice([1, 100, 400, 4000]))
        assert bill == pytest.approx(wanted, abs=1e-9)
    assert hits > 10


def test_refusals_are_the_services_own(client):
    import anthropic

    def refused(match: str, kind: Any = anthropic.BadRequestError, **options: Any) -> None:
        with pytest.raises(kind, match=match) as info:
            ask(client, **{"system": "Be kind."} | options)
        assert info.value.body["type"] == "error" and info.value.body["request_id"].startswith("req_")

    refused("A maximum of 4 blocks with cache_control may be provided. Found 5.", system=[block("a", EPHEMERAL)] * 5)
    refused("Found 5", system=[block("a", EPHEMERAL)] * 4, extra_body={"cache_control": EPHEMERAL})
    refused("model: cloud-sonnet-4-6", anthropic.NotFoundError, model="cloud-sonnet-4-6")
    refused("ttl='1h' cache_control block must not come after", system=[block("a", EPHEMERAL), block("b", HOUR)])
    refused("max_tokens: Input should be a valid integer", extra_body={"max_tokens": "12"})
    refused("colour: Extra inputs are not permitted", extra_body={"colour": "red"})
    refused("text content blocks must be non-empty", system=[block("")])
    refused("prompt is too long: .* tokens > 8192 maximum", system=words(9000))
    refused("exceed context limit: .* > 8192", max_tokens=8192)
    refused("cannot be combined with stream", max_tokens=0, stream=True)
    refused("temperature", extra_body={"temperature": 1.5})
    refused("system.0.cache_control.ttl", system=[block("a", {"type": "ephemeral", "ttl": "2h"})])
    with pytest.raises(anthropic.BadRequestError, match="max_tokens: Field required"):
        client.post("/v1/messages", body={"model": SONNET, "messages": QUESTION}, cast_to=object)
    with pytest.raises(anthropic.BadRequestError, match="image"):
        content = [{"type": "image", "source": {"type": "url", "url": "http://x"}}]
        client.messages.create(model=SONNET, max_tokens=1, messages=[{"role": "user", "content": content}])
