"""Prompt caching as plain functions, against loops and the table's own arithmetic. No server, no torch."""

import importlib.util
import json
import math
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.paths import data_dir
from kvlab.providers import (
    LocalServer,
    as_usage,
    break_even_requests,
    cached_prefix_length,
    cost,
    first_difference,
    merge_usage,
    openai_cached_tokens,
    prices,
    prompt_text,
    request_cost,
)

short = st.lists(st.integers(0, 2), max_size=12)


@given(short, short, st.integers(1, 5))
def test_cached_prefix_length_is_the_longest_whole_number_of_blocks(stored, prompt, block):
    best = max((n for n in range(0, len(prompt), block) if prompt[:n] == stored[:n] and n <= len(stored)), default=0)
    assert cached_prefix_length(stored, prompt, block) == best


def test_openai_cached_tokens_at_the_edges():
    assert [openai_cached_tokens(n) for n in (0, 1023, 1024, 1151, 1152, 2006)] == [0, 0, 1024, 1024, 1152, 1920]
    assert openai_cached_tokens(10, minimum=4, step=3) == 10
    for bad in ((-1,), (5, 1, 0), (5, -1), ("a",)):
        with pytest.raises(ValueError):
            openai_cached_tokens(*bad)


def test_break_even_is_the_first_number_of_requests_that_is_cheaper():
    assert break_even_requests(1.25, 0.1) == 2 and break_even_requests(2, 0.1) == 3
    rng = random.Random(3)
    for _ in range(300):
        write, read = rng.uniform(0, 6), rng.uniform(0, 0.99)
        wanted = next(n for n in range(1, 2000) if write + (n - 1) * read < n)
        assert break_even_requests(write, read) == wanted
    assert break_even_requests(0.9, 3) == 1
    assert break_even_requests(1, 0.5) == 2  # one request alone costs the same
    for write, read in ((1, 1), (1.25, 1.5), (-1, 0.1), (1.25, -0.1)):
        with pytest.raises(ValueError):
            break_even_requests(write, read)


def test_merge_usage_keeps_the_last_value_and_adds_nothing():
    events = [{"input_tokens": 7, "output_tokens": 1, "cache": None}, {"output_tokens": 15, "input_tokens": None}]
    assert merge_usage(events) == {"input_tokens": 7, "output_tokens": 15}
    assert merge_usage([]) == {} and events[0]["output_tokens"] == 1
    with pytest.raises(ValueError):
        merge_usage([3])


def test_request_cost_counts_each_kind_once():
    row = {"input": 3.0, "cache_write": 3.75, "cache_read": 0.3, "output": 15.0}
    usage = {"input_tokens": 20, "cache_creation_input_tokens": 2000, "cache_read_input_tokens": None}
    assert request_cost(usage, row) == pytest.approx((20 * 3 + 2000 * 3.75) / 1e6, rel=1e-12)
    assert request_cost({}, row) == 0
    assert request_cost({"output_tokens": 10**6}, row) == 15
    for bad_usage, bad_prices in (({"input_tokens": -1}, row), ({}, {"input": 1}), ({"output_tokens": 1.5}, row)):
        with pytest.raises(ValueError):
            request_cost(bad_usage, bad_prices)


def test_odd_usage_and_multipliers_are_counted_or_refused_in_a_sentence():
    usage = {"input_tokens": 0, "cache_creation": {"ephemeral_1h_input_tokens": None}, "cache_creation_input_tokens": 3}
    row = prices.model("claude-opus-5")
    assert cost(usage, "claude-opus-5") == pytest.approx(3 * row.cache_write / 1e6)
    with pytest.raises(ValueError, match="usage must be"):
        cost(None, "claude-opus-5")
    with pytest.raises(ValueError, match="usage must be"):
        request_cost(None, row.per_million())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="never pay"):
        break_even_requests(1e300, 1 - 1e-16)


def test_first_difference_names_the_byte():
    found = first_difference("prix: 3 € net", "prix: 3 $ net")
    assert found is not None and (found.byte, found.before, found.a[0], found.b[0]) == (8, "prix: 3 ", "€", "$")
    assert first_difference("same", b"same") is None
    ended = first_difference("abc", "abcd")
    assert ended is not None and (ended.byte, ended.a, ended.b) == (3, "", "d")
    with pytest.raises(ValueError):
        first_difference(3, "a")  # type: ignore[arg-type]


def test_a_reordered_key_and_a_tool_change_the_prompt_where_they_stand():
    tools = [{"name": n, "input_schema": {"type": "object", "about": n}} for n in ("look", "find")]
    body = {"tools": tools, "system": "Be kind.", "messages": [{"role": "user", "content": "Hello"}]}
    whole = prompt_text(body)
    assert whole.index("look") < whole.index("find") < whole.index("Be kind.") < whole.index("Hello")
    turned = body | {"tools": [tools[0] | {"input_schema": {"about": "look", "type": "object"}}, tools[1]]}
    found = first_difference(whole, prompt_text(turned))
    assert found is not None and whole[found.byte :].startswith("type")
    later = first_difference(whole, prompt_text(body | {"messages": [{"role": "user", "content": "Hallo"}]}))
    assert later is not None and whole[: later.byte].endswith("Human: H")
    for bad in ({}, {"messages": []}, {"messages": "x"}, {"messages": [{"role": "user"}]}):
        with pytest.raises(ValueError, match="no request of either"):
            prompt_text(bad)


def test_the_price_table_is_dated_and_its_multipliers_hold():
    assert prices.read_on() in prices.table()
    for row in prices.models("anthropic"):
        assert row.cache_write == pytest.approx(1.25 * row.input) and row.cache_write_1h == pytest.approx(2 * row.input)
        ratio = row.cache_read / row.input
        assert ratio == pytest.approx(0.1) or f"{ratio:.3g} of the input price" in row.note or "0.20 until" in row.note
    for row in prices.models("openai"):
        write = row.cache_write / row.input
        assert write == pytest.approx(1.25 if row.breakpoints else 1) and row.cache_write_1h is None
    told = json.loads((data_dir() / "prices.json").read_text("utf-8"))["multipliers"]["openai"]["read"]
    assert {round(row.cache_read / row.input, 6) for row in prices.models("openai")} == set(told)
    assert all(prices.sources(row) for row in prices.models())
    assert "2048" in prices.model("claude-sonnet-4-6").note, "sources disagree about its minimum: the row must say so"
    with pytest.raises(ValueError, match="claude-opus-5"):
        prices.model("cloud-sonnet-4-6")
    with pytest.raises(ValueError):
        prices.model("gpt-4o").per_million("1h")


def test_cost_knows_both_kinds_of_writes_and_both_kinds_of_usage():
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_creation_input_tokens": 300,
        "cache_creation": {"ephemeral_1h_input_tokens": 100, "ephemeral_5m_input_tokens": 200},
        "cache_read_input_tokens": 1000,
    }
    wanted = (10 * 3 + 5 * 15 + 200 * 3.75 + 100 * 6 + 1000 * 0.3) / 1e6
    assert math.isclose(cost(usage, "claude-sonnet-4-6"), wanted, rel_tol=1e-12)
    assert math.isclose(cost(usage, "claude-sonnet-4-6", cached=False), (1310 * 3 + 75) / 1e6, rel_tol=1e-12)
    openai = {"prompt_tokens": 2006, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 1920}}
    assert as_usage(openai)["input_tokens"] == 86
    assert math.isclose(cost(openai, "gpt-4o"), (86 * 2.5 + 1920 * 1.25 + 300 * 10) / 1e6, rel_tol=1e-12)


def test_the_rules_import_no_torch_and_no_sdk():
    code = "import sys, kvlab.providers as p; p.request_cost({}, p.prices.model('gpt-4o').per_million()); " + (
        "print([m for m in ('torch', 'anthropic', 'openai', 'fastapi', 'pydantic') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_a_missing_package_is_one_sentence(missing, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == missing else find(name, *a))
    with pytest.raises(
        ImportError, match=rf"^the package {missing} is not installed: pip install 'kvlab\[api\]' brings it$"
    ):
        LocalServer()
