"""The widgets of notebook 04: the bill of n requests, two requests at the server, and faults in the prefix cache."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import kvlab
from kvlab import faults, generate, widgets
from kvlab.model import Llama
from kvlab.providers import LocalServer, openai_cached_tokens
from kvlab.widgets.break_prefix import AGAIN, EQUAL, FIRST, RULE, STRANGER, TURNED, _requests
from kvlab.widgets.prompt_cache import BACK, FRONT, LINE
from provider_server import HAIKU, OPUS, SONNET, serving

# --- break-even ------------------------------------------------------------------------------------------------------


def test_break_even_costs_by_hand() -> None:
    """claude-sonnet-4-6: 3 dollars for input, 3.75 for a write, 0.3 for a read, 15 for output, per million."""
    found = widgets.break_even_costs(SONNET, "5m", prefix=2000, fresh=100, answer=10, n_max=3)
    rest = 100 * 3 + 10 * 15
    expected = [2000 * 3.75 + rest, 2000 * (3.75 + 0.3) + 2 * rest, 2000 * (3.75 + 0.6) + 3 * rest]
    assert found["cached"] == pytest.approx([value / 1e6 for value in expected], rel=1e-12)
    assert found["plain"] == pytest.approx([n * (2000 * 3 + rest) / 1e6 for n in (1, 2, 3)], rel=1e-12)
    assert found["pays_from"] == 2 and found["stored"] == 2000


@pytest.mark.parametrize(
    ("model", "ttl", "prefix", "stored", "pays_from"),
    [
        (SONNET, "1h", 2000, 2000, 3),
        (HAIKU, "5m", 4095, 0, None),  # below the minimum nothing is cached
        (HAIKU, "5m", 4096, 4096, 2),
        ("gpt-4o", "5m", 1200, openai_cached_tokens(1200), 2),
        ("gpt-4o", "5m", 1023, 0, None),
        ("gpt-5.6-sol", "5m", 1200, 1200, 2),  # breakpoints in place of steps
    ],
)
def test_break_even_follows_minimum_steps_and_time_to_live(
    model: str, ttl: str, prefix: int, stored: int, pays_from: int | None
) -> None:
    found = widgets.break_even_costs(model, ttl, prefix, 20, 50)
    assert (found["stored"], found["pays_from"]) == (stored, pays_from)
    if not stored:
        assert found["cached"] == pytest.approx(found["plain"], rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cloud-sonnet-4-6", "5m", 1, 1, 1), "no price"),
        ((SONNET, "2h", 1, 1, 1), "ttl"),
        (("gpt-4o", "1h", 1, 1, 1), "no cache entries of an hour"),
        ((SONNET, "5m", -1, 1, 1), "prefix"),
        ((SONNET, "5m", 1, 1, 1, 0), "n_max"),
    ],
)
def test_break_even_refuses(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        widgets.break_even_costs(*arguments)


def test_break_even_widget_shows_what_the_plain_function_returns() -> None:
    shown = widgets.break_even(SONNET, "5m", 2000, 20, 100)
    assert shown.values == widgets.break_even_costs(SONNET, "5m", 2000, 20, 100)
    drawn = {line.get_label(): list(line.get_ydata()) for line in shown.figure.axes[0].get_lines()}
    assert drawn == {"without caching": shown.values["plain"], "with caching": shown.values["cached"]}
    assert "read on 20" in shown.table and "from | 2 requests" in " ".join(shown.table.split())
    shown.controls["ttl"].value = "1h"
    assert shown.values == widgets.break_even_costs(SONNET, "1h", 2000, 20, 100)
    shown.controls["model_id"].value = "gpt-4o"
    assert "no cache entries of an hour" in shown.message and shown.values["model"] == SONNET


# --- two requests ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with serving() as running:
        yield running


@pytest.mark.parametrize("model", [OPUS, SONNET, "gpt-4o"])
def test_two_equal_beginnings_are_read(server: LocalServer, model: str) -> None:
    view = widgets.prompt_cache_view(server, length=1100, model_id=model)
    first, second = view["requests"]
    assert first["read"] == first["from_cache"] == 0 < second["read"] and second["written"] == 0
    assert second["from_cache"] == second["read"] // 16 * 16
    assert second["paid"] < second["plain"] and view["edge"] == view["common"] // 16 * 16
    for request in view["requests"]:
        assert request["read"] + request["written"] + request["fresh"] == request["prompt"]
        assert request["computed"] + request["from_cache"] == request["prompt"]
    if model == "gpt-4o":
        assert second["read"] == openai_cached_tokens(view["common"]) and first["paid"] == first["plain"]
    else:
        assert first["written"] == second["read"] <= view["common"]


def test_the_tokens_are_the_servers_own(server: LocalServer) -> None:
    from kvlab.widgets.prompt_cache import ASKED, _body, _handbook, _tokens

    for provider, model in (("anthropic", SONNET), ("openai", "gpt-4o")):
        view = widgets.prompt_cache_view(server, length=700, model_id=model, line="Be kind.\n")
        body = _body(provider, model, "5m", "Be kind.\n", FRONT, _handbook(server, 700), ASKED[1])
        assert len(_tokens(server, provider, body)) == view["requests"][1]["prompt"]


def test_a_changed_line_breaks_the_prefix_in_front_and_not_behind(server: LocalServer) -> None:
    changed = LINE.replace("village", "valley")
    front = widgets.prompt_cache_view(server, changed, FRONT)
    at = front["difference"]
    assert front["requests"][1]["read"] == 0 == front["requests"][1]["from_cache"] and front["common"] < 30
    assert at.a.startswith("illage") and at.b.startswith("alley") and at.before.endswith("v")
    behind = widgets.prompt_cache_view(server, changed, BACK)
    assert behind["requests"][1]["read"] == behind["requests"][0]["written"] > 1000 and behind["common"] > 1000


def test_time_and_minimum_and_ttl(server: LocalServer) -> None:
    def second(**options: Any) -> tuple[int, int]:
        request = widgets.prompt_cache_view(server, **options)["requests"][1]
        return request["read"], request["written"]

    assert second(wait=299)[0] > 0 and second(wait=300)[0] == 0 < second(wait=300)[1]
    assert second(wait=3599, ttl="1h")[0] > 0 == second(wait=3600, ttl="1h")[0]
    assert second(wait=599, model_id="gpt-4o")[0] > 0 == second(wait=600, model_id="gpt-4o")[0]
    assert (
        second(model_id=HAIKU) == (0, 0) and second(length=700) == (0, 0) and second(length=700, model_id=OPUS)[0] > 0
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"place": "nowhere"}, "nowhere"),
        ({"model_id": "gpt-5.6-sol"}, "choose one of"),
        ({"length": 0}, "length"),
        ({"length": 3001}, "length"),
        ({"wait": -1}, "wait"),
        ({"ttl": "2h"}, "ttl"),
        ({"line": "a" * 2001}, "2,001 characters"),
        ({"line": None}, "line must be a text"),
        ({"line": "\ud800"}, "half a character"),
        ({"length": 1.5}, "length"),
        ({"length": True}, "length"),
        ({"length": None}, "length"),
        ({"wait": "3"}, "wait"),
        ({"wait": None}, "wait"),
        ({"model_id": "gpt-4o", "ttl": "1h"}, "no cache entries of an hour"),
    ],
)
def test_the_view_refuses_and_sends_nothing(server: LocalServer, options: Any, message: str) -> None:
    before = len(server.requests)
    with pytest.raises(ValueError, match=message):
        widgets.prompt_cache_view(server, **options)
    assert len(server.requests) == before


def test_prompt_cache_widget_draws_the_counts_of_the_sdk(server: LocalServer) -> None:
    shown = widgets.prompt_cache(server, length=700)
    shown.controls["model_id"].value = OPUS
    shown.controls["line"].value = "Now it is 10:15."
    shown.controls["place"].value = BACK
    view, axes = shown.values, shown.figure.axes[0]
    assert view["requests"][1]["read"] > 600 and view["model"] == OPUS and view["place"] == BACK
    widths = [bar.get_width() for bar in axes.patches]
    kinds = [[request[kind] for request in view["requests"]] for kind in ("read", "written", "fresh")]
    assert widths == [width for kind in kinds for width in kind]
    assert [line.get_xdata()[0] for line in axes.get_lines()] == [view["common"], view["edge"]]
    assert "10:15" in shown.table and "alive" in shown.table and "\\n" in shown.table
    shown.controls["wait"].value = 400
    assert "expired" in shown.table and shown.values["requests"][1]["read"] == 0


def test_the_note_tells_of_no_entry_that_does_not_exist(server: LocalServer) -> None:
    shown = widgets.prompt_cache(server, length=300)
    for model in (SONNET, HAIKU, "gpt-4o"):
        shown.controls["model_id"].value = model
        assert "left no entry" in " ".join(shown.table.split()) and "alive" not in shown.table, model
    shown.controls["length"].value = 1200
    assert shown.values["stored"] and "alive" in shown.table


def test_values_beyond_the_sliders_and_no_server_are_refused(server: LocalServer) -> None:
    for length in (50, 3001):
        with pytest.raises(ValueError, match="length must be"):
            widgets.prompt_cache(server, length=length)
    with pytest.raises(ValueError, match="prefix must be from 0 to 20,000"):
        widgets.break_even(prefix=50_000)
    for call in (widgets.prompt_cache, widgets.prompt_cache_view):
        with pytest.raises(ValueError, match="give a running LocalServer"):
            call(None)  # type: ignore[arg-type]


def test_only_anthropics_entries_are_named_by_their_ttl() -> None:
    assert "entries of 5m" in widgets.break_even(SONNET).table
    assert "5m" not in widgets.break_even("gpt-4o").table and "5m" not in widgets.break_even("gpt-5.6-sol").table


# --- faults in the prefix cache --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def primer() -> Llama:
    return kvlab.load("primer", "cpu", torch.float64)


def test_without_a_fault_each_request_takes_what_the_rule_allows(primer: Llama) -> None:
    found = widgets.run_prefix_fault(primer, "none")
    assert all(found["checks"].values()) and max(found["differences"].values()) < 1e-9
    prompts = {name: prompt for name, (prompt, _) in _requests(primer).items()}
    whole = (len(prompts[FIRST]) - 1) // 16 * 16
    assert found["taken"] == {FIRST: 0, AGAIN: whole, TURNED: 16, STRANGER: 0} and whole > 90
    for name, prompt in prompts.items():
        alone = generate.generate_naive(primer, prompt, 8)
        assert found["texts"][name] == primer.tokenizer.decode(alone.tokens[-8:])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fault", "red", "wrong"),
    [("prefix_forgotten", {EQUAL, RULE}, {TURNED}), ("salt_forgotten", {RULE}, set())],
)
def test_each_prefix_fault_turns_its_checks_red_and_leaves_nothing_planted(
    primer: Llama, fault: str, red: set[str], wrong: set[str]
) -> None:
    right, found = widgets.run_prefix_fault(primer, "none"), widgets.run_prefix_fault(primer, fault)
    assert {name for name, good in found["checks"].items() if not good} == red
    assert {name for name, off in found["differences"].items() if off > 1e-6} == wrong
    assert found["taken"][STRANGER] == found["taken"][AGAIN] > 0, "both leak"
    assert (found["texts"] != right["texts"]) == bool(wrong)
    assert widgets.run_prefix_fault(primer, "none") == right


def test_a_forgotten_prefix_gives_the_answer_to_the_old_order(primer: Llama) -> None:
    texts = widgets.run_prefix_fault(primer, "prefix_forgotten")["texts"]
    assert texts[TURNED] == texts[FIRST] != widgets.run_prefix_fault(primer, "none")["texts"][TURNED]


@pytest.mark.parametrize(("arguments", "message"), [(("stale_cache",), "no prefix fault"), (("none", 0), "at least 1")])
def test_run_prefix_fault_refuses(primer: Llama, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        widgets.run_prefix_fault(primer, *arguments)


def test_break_prefix_shows_what_the_plain_function_returns(primer: Llama) -> None:
    shown = widgets.break_prefix(primer, "prefix_forgotten")
    assert shown.values == widgets.run_prefix_fault(primer, "prefix_forgotten") and "FAILS" in shown.table
    heights = [bar.get_height() for bar in shown.figure.axes[0].patches]
    assert heights == list(shown.values["differences"].values())
    shown.controls["fault"].value = "none"
    assert shown.values == widgets.run_prefix_fault(primer, "none")
    assert set(widgets.PREFIX_FAULTS) - {"none"} <= set(faults.FAULTS)


def test_a_changed_text_stands_beside_the_right_one(primer: Llama) -> None:
    shown = widgets.break_prefix(primer)
    assert "without the fault" not in shown.table
    right = shown.values["texts"]
    shown.controls["fault"].value = "prefix_forgotten"
    changed = [name for name, text in shown.values["texts"].items() if text != right[name]]
    assert changed and shown.table.count("without the fault") == len(changed)
    for name in changed:
        assert f"{name}, without the fault: {right[name]!r}" in shown.table
