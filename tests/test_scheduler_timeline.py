"""The scheduler timeline: its bars are the engine's log, the same everywhere, and its trade-offs are real."""

import math

import pytest
import torch

from kvlab import widgets
from kvlab.config import ModelConfig
from kvlab.engine import POLICIES
from kvlab.generate import generate_cached
from kvlab.loading import initialise
from kvlab.model import Llama
from kvlab.widgets.scheduler_timeline import DAY, PER_STEP, PER_TOKEN, Visit


def make_model() -> Llama:
    torch.manual_seed(5)
    model = Llama(ModelConfig(50, 16, 2, 4, 2, 4, 32, 256))
    initialise(model)
    model = model.double().eval()
    model.reset_rope(torch.float64)
    return model


MODEL = make_model()


@pytest.mark.parametrize("policy", POLICIES)
def test_bars_add_up_to_the_work_and_to_the_counted_clock(policy: str) -> None:
    values = widgets.timeline(MODEL, policy, max_seqs=3, token_budget=20)
    steps: dict[tuple[float, float], int] = {}
    work: dict[tuple[str, str], int] = {}
    for name, start, end, kind, n in values["bars"]:
        steps[start, end] = steps.get((start, end), 0) + n
        work[name, kind] = work.get((name, kind), 0) + n
    assert len(steps) == values["steps"]
    for (start, end), n in steps.items():
        assert end - start == pytest.approx(PER_STEP + PER_TOKEN * n)
    for (name, *_), visit in zip(values["requests"], DAY, strict=True):
        assert work[name, "prefill"] == visit.prompt
        assert work[name, "decode"] == visit.answer - 1  # the first token comes out of the prompt
    assert sum(n for (_, kind), n in work.items() if kind == "padding") == values["padding"]
    assert values["positions"] == sum(work.values())
    assert values["most_tokens"] == max(steps.values())


def test_the_same_settings_give_the_same_values() -> None:
    first, second = (widgets.timeline(MODEL, "chunked", 4, 16) for _ in range(2))
    assert first == second


def test_tokens_are_those_of_the_single_request_whatever_the_schedule() -> None:
    runs = [widgets.timeline(MODEL, policy, 3, 20)["outputs"] for policy in POLICIES]
    runs.append(widgets.timeline(MODEL, "chunked", 8, 9)["outputs"])
    assert all(run == runs[0] for run in runs)
    visit = DAY[3]
    prompt = [(7 * 3 + 3 * j) % 50 for j in range(visit.prompt)]
    assert runs[0][3] == generate_cached(MODEL, prompt, visit.answer, ignore_eos=True).tokens


def test_limits_hold_in_every_step() -> None:
    values = widgets.timeline(MODEL, "chunked", max_seqs=4, token_budget=11)
    by_step: dict[float, list[int]] = {}
    for _, start, _, _, n in values["bars"]:
        by_step.setdefault(start, []).append(n)
    assert max(sum(step) for step in by_step.values()) <= 11
    assert max(map(len, by_step.values())) <= 4


def test_the_sliders_show_their_lesson() -> None:
    """Static pads; whole prompts stall the others; a smaller budget means shorter gaps and more steps."""
    static, whole, small, large = (
        widgets.timeline(MODEL, policy, 4, budget)
        for policy, budget in (("static", 16), ("continuous", 16), ("chunked", 16), ("chunked", 128))
    )
    assert static["padding"] > 0 == whole["padding"] == small["padding"]
    assert whole["gap_p99"] > 2 * small["gap_p99"]
    assert small["most_tokens"] < large["most_tokens"] and small["steps"] > large["steps"]


def test_a_single_token_has_no_gap() -> None:
    values = widgets.timeline(MODEL, visits=[Visit(2, 5, 1)])
    ((name, arrival, ttft, gap, end),) = values["requests"]
    assert (name, arrival) == ("A", 2) and math.isnan(gap)
    assert ttft == pytest.approx(PER_STEP + 5 * PER_TOKEN) and end == pytest.approx(2 + ttft)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "fair"}, "unknown policy"),
        ({"max_seqs": 0}, "max_seqs"),
        ({"token_budget": 3, "max_seqs": 4}, "cannot hold one token"),
        ({"visits": []}, "at least one"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        widgets.timeline(MODEL, **options)


def test_the_widget_shows_what_the_plain_function_returns() -> None:
    shown = widgets.scheduler_timeline(MODEL)
    assert shown.values == widgets.timeline(MODEL, "chunked", 4, 16)
    shown.controls["token_budget"].value = 64
    assert shown.values == widgets.timeline(MODEL, "chunked", 4, 64)
    shown.controls["policy"].value = "static"
    assert shown.values == widgets.timeline(MODEL, "static", 4, 64)
    assert f"{shown.values['steps']} steps" in shown.table
    (axes,) = shown.figure.axes
    assert axes.get_xlabel() and [label.get_text() for label in axes.get_yticklabels()] == list("ABCDEFGHIJ")
    drawn = {label.get_text() for label in axes.get_legend().get_texts()}
    assert drawn == {kind for *_, kind, _ in shown.values["bars"]} == {"prefill", "decode", "padding"}
    assert str(shown.values["padding"]) in shown.html


def test_the_table_says_why_a_step_may_exceed_the_budget() -> None:
    reason = "a prompt above the budget is not cut, it gets a step to itself"
    shown = widgets.scheduler_timeline(MODEL, "continuous")
    assert shown.values["most_tokens"] == 96 > shown.values["token_budget"] and reason in shown.table
    shown.controls["policy"].value = "chunked"
    assert shown.values["most_tokens"] <= shown.values["token_budget"] and reason not in shown.table


def test_a_budget_below_the_places_is_a_sentence_and_the_figure_stays() -> None:
    shown = widgets.scheduler_timeline(MODEL)
    before = shown.values
    shown.controls["token_budget"].value = 2
    assert "cannot hold one token" in shown.message and shown.values == before
    shown.controls["token_budget"].value = 20
    assert shown.message == "" and shown.values["token_budget"] == 20
