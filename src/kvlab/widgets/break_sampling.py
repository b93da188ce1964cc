"""Plant a real mistake in the sampling pipeline: what becomes of the text, and which check notices."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from kvlab import faults, plots
from kvlab.generate import as_tensor, generate_cached, prompt_ids
from kvlab.model import Llama
from kvlab.sampling import SamplingSettings, next_token_probs, stages
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "A stage of the pipeline has a mistake: does the text show it, and which check fails?"
PROMPT = "Once there was a shy girl named Vera. Vera had a"
NONE = "none"
SAMPLING_FAULTS = (
    NONE,
    "crossing_token_dropped",
    "top_k_one_short",
    "penalty_without_sign",
    "penalty_per_occurrence",
)
SETTINGS = SamplingSettings(temperature=0.8, top_k=6, top_p=0.9, repetition_penalty=1.2, seed=0)

TOP_K = "top-k leaves k tokens"
TOP_P = "the nucleus reaches p"
LOWER = "the penalty raises no logit"
ONCE = "a token counts once, however often it occurs"


@torch.no_grad()
def run_sampling_fault(model: Llama, fault: str, prompt: str = PROMPT, n_new: int = 30) -> dict[str, Any]:
    """Write a text with and without a planted fault, and check the stages at each place of the right text.

    fault: "none" or one of SAMPLING_FAULTS. Both texts use SETTINGS, the seed included. Returns fault, text_right,
    text_wrong, checks {name: passed at every place}, distances (at each place half the summed |difference| of the two
    distributions, 0 to 1) and max_distance. The checks compare with what torch says, not with the pipeline itself.
    """
    if fault not in SAMPLING_FAULTS:
        raise ValueError(f"there is no sampling fault '{fault}': choose one of {', '.join(SAMPLING_FAULTS)}")
    if not prompt.strip():
        raise ValueError("the prompt is empty: write at least one word")
    if n_new < 1:
        raise ValueError(f"n_new must be at least 1, got {n_new}")
    ids = prompt_ids(model, prompt, n_new)
    right = generate_cached(model, ids, n_new, SETTINGS)
    context = [*ids, *right.tokens]
    rows = model(as_tensor(model, context[:-1])).cpu().double()[len(ids) - 1 :]
    places = [context[: len(ids) + i] for i in range(len(rows))]
    expected = [next_token_probs(row, SETTINGS, before, len(ids)) for row, before in zip(rows, places, strict=True)]
    checks = dict.fromkeys((TOP_K, TOP_P, LOWER, ONCE), True)
    distances = []
    with nullcontext() if fault == NONE else faults.plant(fault):
        wrong = generate_cached(model, ids, n_new, SETTINGS)
        for row, before, theory in zip(rows, places, expected, strict=True):
            probs = next_token_probs(row, SETTINGS, before, len(ids))
            distances.append(float((probs - theory).abs().sum() / 2))
            for name, good in _checked(row, before, len(ids)).items():
                checks[name] = checks[name] and good
    return {
        "fault": fault,
        "text_right": right.text,
        "text_wrong": wrong.text,
        "checks": checks,
        "distances": distances,
        "max_distance": max(distances),
    }


def _checked(row: torch.Tensor, before: list[int], n_prompt: int) -> dict[str, bool]:
    """The four checks at one place: logits (vocab,) of the model, and the ids before it."""
    after = dict(stages(row, SETTINGS, before, n_prompt))
    penalised, warm = after["repetition_penalty"], after["temperature"]
    assert SETTINGS.top_k is not None
    few = after["top_k"]
    shares = few.softmax(-1)
    nucleus = float(shares[after["top_p"] > -math.inf].sum())
    lowest = row - (SETTINGS.repetition_penalty - 1) * row.abs()  # no logit can fall further by one penalty
    return {
        TOP_K: int((few > -math.inf).sum()) == int((warm >= warm.topk(SETTINGS.top_k).values[-1]).sum()),
        TOP_P: nucleus >= SETTINGS.top_p - 1e-9,
        LOWER: bool((penalised <= row + 1e-9).all()),
        ONCE: bool((penalised >= lowest - 1e-9).all()),
    }


def sampling_fault_figure(values: dict[str, Any]) -> Figure:
    """One bar for each place of the text: how far the distribution is off."""
    heights = {str(place): distance for place, distance in enumerate(values["distances"], start=1)}
    title = f"fault: {values['fault']}"
    figure = plots.bars(heights, "new token", "distance from the right distribution (0 to 1)", title)
    axes = figure.axes[0]
    for label in list(axes.texts):
        label.remove()  # too many bars for a number above each
    ticks = range(0, len(heights), 5)
    axes.set_xticks(ticks, [str(tick + 1) for tick in ticks])
    axes.set_ylim(0, 1)
    return figure


def sampling_fault_table(values: dict[str, Any]) -> Table:
    rows = [(f"check: {name}", "✓ passes" if good else "✗ FAILS") for name, good in values["checks"].items()]
    rows.append(("largest distance from the right distribution", f"{values['max_distance']:.2g}"))
    name = values["fault"]
    summary = "no mistake planted" if name == NONE else faults.FAULTS[name].summary
    notes = (f"right: {values['text_right']}", f"with this fault: {values['text_wrong']}")
    return Table(f"{name}: {summary}", ("what", "result"), tuple(rows), notes=notes, width=56)


def break_sampling(model: Llama, prompt: str = PROMPT, n_new: int = 30, fault: str = NONE) -> Explorer:
    """Choose a mistake and see the text, the distributions and the checks change. `fault` is the one to start with."""

    def compute(fault: str, prompt: str) -> Result:
        values = run_sampling_fault(model, fault, prompt, n_new)
        red = [name for name, good in values["checks"].items() if not good]
        alt = (
            f"Distance from the right distribution, at most {values['max_distance']:.2g}; checks that fail: {len(red)}."
        )
        return Result(values, sampling_fault_table(values), sampling_fault_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        wide = ipywidgets.Layout(width="90%")
        return {
            "fault": ipywidgets.Dropdown(options=SAMPLING_FAULTS, value=fault, description="Fault"),
            "prompt": ipywidgets.Text(value=prompt, description="Prompt", continuous_update=False, layout=wide),
        }

    return Explorer(QUESTION, {"fault": fault, "prompt": prompt}, compute, build).show()
