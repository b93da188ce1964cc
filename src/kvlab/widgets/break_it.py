"""Plant a real mistake in the cached loop: what becomes of the text, and which check notices."""

from __future__ import annotations

import textwrap
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch

from kvlab import faults, plots
from kvlab.cache import PreallocatedCache
from kvlab.generate import as_tensor, decode_step, generate_cached, generate_naive, prefill, prompt_ids
from kvlab.model import Llama
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "A cached loop has a mistake: does the text show it, and which check fails?"
PROMPT = "Once there was a brave boy named Felix. Felix had a"
NONE = "none"
CHOICES = (
    NONE,
    "position_off_by_one",
    "last_prompt_token_twice",
    "stale_cache",
    "values_not_appended",
    "top_left_mask",
)
ATOL = 1e-4  # float32 rounding stays far below, a mistake far above

TOKENS = "tokens equal the uncached loop"
FIRST_STEP = "logits of the first decode step equal"
CHUNK = "a chunk on a filled cache equals one pass"
LENGTH = "the cache has the right length"


@torch.no_grad()
def run_fault(model: Llama, fault: str, prompt: str = PROMPT, n_new: int = 40) -> dict[str, Any]:
    """Generate with and without a planted fault, and run four checks on the faulty loop. The fault ends with the call.

    fault: "none" or a name of `kvlab.faults.FAULTS`. Returns fault, text_right, text_wrong, tokens_right, tokens_wrong,
    first_difference (index of a new token, None when all are equal), checks {name: passed}, logit_differences (largest
    |difference| after prefill and after each decode step, both fed the right tokens), and max_logit_difference.
    """
    _known(fault)
    return _compare(model, fault, _reference(model, prompt, n_new))


def _known(fault: str) -> None:
    if fault != NONE and fault not in faults.FAULTS:
        raise ValueError(f"there is no fault '{fault}': choose one of {', '.join(CHOICES)}")


@dataclass(frozen=True)
class _Reference:
    """The loop without a mistake: ids of the prompt, n_new (at most), new tokens, their text, logits (n, vocab_size)."""

    ids: list[int]
    n_new: int
    tokens: list[int]
    text: str
    logits: torch.Tensor


@torch.no_grad()
def _reference(model: Llama, prompt: str, n_new: int) -> _Reference:
    if not prompt.strip():
        raise ValueError("the prompt is empty: write at least one word")
    if n_new < 1:
        raise ValueError(f"n_new must be at least 1, got {n_new}")
    ids = prompt_ids(model, prompt, n_new + 1)  # one position to spare: a fault may take one too many
    right = generate_naive(model, ids, n_new)
    return _Reference(ids, n_new, right.tokens, right.text, model(as_tensor(model, [*ids, *right.tokens])))


@torch.no_grad()
def _compare(model: Llama, fault: str, right: _Reference) -> dict[str, Any]:
    """What `run_fault` returns, from the loop without a mistake."""
    sequence = [*right.ids, *right.tokens]
    with _planted(fault):
        held = _cache(model, len(right.ids) + right.n_new + 1)
        wrong = generate_cached(model, right.ids, right.n_new, cache=held)
        differences = _forced_differences(model, right.ids, right.tokens, right.logits)
        half = len(sequence) // 2
        cache = _cache(model, len(sequence) + 1)
        prefill(model, sequence[:half], cache)
        start = len(sequence) - half
        chunk = model(as_tensor(model, sequence[half:]), cache)
    pairs = zip_longest(right.tokens, wrong.tokens)
    checks = {
        TOKENS: wrong.tokens == right.tokens,
        FIRST_STEP: differences[1] <= ATOL,
        CHUNK: _difference(chunk, right.logits[-start:]) <= ATOL,
        LENGTH: held.length == len(right.ids) + len(wrong.tokens) - 1,
    }
    return {
        "fault": fault,
        "text_right": right.text,
        "text_wrong": wrong.text,
        "tokens_right": list(right.tokens),
        "tokens_wrong": wrong.tokens,
        "first_difference": next((i for i, (a, b) in enumerate(pairs) if a != b), None),
        "checks": checks,
        "logit_differences": differences,
        "max_logit_difference": max(differences),
    }


def fault_figure(values: dict[str, Any]) -> Figure:
    """One bar per step: how far the logits are off when both loops are fed the same tokens."""
    heights = {str(step): value for step, value in enumerate(values["logit_differences"])}
    title = f"fault: {values['fault']}"
    figure = plots.bars(heights, "new tokens fed (0: after prefill)", "largest |logit difference|", title)
    axes = figure.axes[0]
    for label in list(axes.texts):
        label.remove()  # too many bars for a number above each
    ticks = range(0, len(heights), 5)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_ylim(0, max(1.0, 1.1 * values["max_logit_difference"]))  # rounding must not look like a mistake
    if unseen := _unseen(values):
        axes.text(0.5, 0.5, textwrap.fill(unseen, 60), ha="center", va="center", transform=axes.transAxes)
    return figure


def fault_table(model: Llama, values: dict[str, Any]) -> Table:
    first = values["first_difference"]
    where = "none: the texts are equal" if first is None else f"number {first + 1} (marked »so«)"
    rows = [(f"check: {name}", "✓ passes" if good else "✗ FAILS") for name, good in values["checks"].items()]
    rows += [
        ("first different new token", where),
        ("largest logit difference", f"{values['max_logit_difference']:.2g}"),
    ]
    name = values["fault"]
    summary = "no mistake planted" if name == NONE else faults.FAULTS[name].summary
    unseen = _unseen(values)
    notes = (
        f"uncached loop: {_marked(model, values['tokens_right'], first)}",
        f"cached loop with this fault: {_marked(model, values['tokens_wrong'], first)}",
        *([f"figure: {unseen}"] if unseen else []),
    )
    return Table(f"{name}: {summary}", ("what", "result"), tuple(rows), notes=notes, width=56)


def break_it(model: Llama, prompt: str = PROMPT, n_new: int = 40, fault: str = NONE) -> Explorer:
    """Choose a mistake and see the text, the logits and the checks change. `fault` is the one to start with."""
    _known(fault)

    @lru_cache(maxsize=4)
    def reference(prompt: str) -> _Reference:  # it is the same whatever the fault
        return _reference(model, prompt, n_new)

    def compute(fault: str, prompt: str) -> Result:
        values = _compare(model, fault, reference(prompt))
        red = [name for name, good in values["checks"].items() if not good]
        alt = f"Logit differences by step, at most {values['max_logit_difference']:.2g}; checks that fail: {len(red)}."
        return Result(values, fault_table(model, values), fault_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        wide = ipywidgets.Layout(width="90%")
        return {
            "fault": ipywidgets.Dropdown(options=CHOICES, value=fault, description="Fault"),
            "prompt": ipywidgets.Text(value=prompt, description="Prompt", continuous_update=False, layout=wide),
        }

    return Explorer(QUESTION, {"fault": fault, "prompt": prompt}, compute, build).show()


def _unseen(values: dict[str, Any]) -> str:
    """Why there are no bars to see, "" when there are some."""
    if values["max_logit_difference"] > ATOL:
        return ""
    if all(values["checks"].values()):
        return "No bar: no step differs by more than rounding."
    return (
        "No bar: every single step is right. This fault shows only when several tokens arrive at once, as in a chunk."
    )


def _planted(fault: str) -> AbstractContextManager[Any]:
    return nullcontext() if fault == NONE else faults.plant(fault)


def _cache(model: Llama, room: int) -> PreallocatedCache:
    return PreallocatedCache(model.config, room, dtype=model.dtype, device=model.device)


def _difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


def _forced_differences(model: Llama, ids: list[int], tokens: list[int], expected: torch.Tensor) -> list[float]:
    """Largest |logit difference| after prefill and after each of `tokens`, against the rows of one full pass."""
    cache = _cache(model, len(ids) + len(tokens) + 1)
    found = [_difference(prefill(model, ids, cache), expected[len(ids) - 1])]
    for i, token in enumerate(tokens):
        found.append(_difference(decode_step(model, token, cache), expected[len(ids) + i]))
    return found


def _marked(model: Llama, tokens: list[int], first: int | None) -> str:
    """The text of the tokens, the one at `first` between » and «."""
    assert model.tokenizer is not None  # prompt_ids has refused a text without one
    decode = model.tokenizer.decode
    if first is None or first >= len(tokens):
        return decode(tokens)
    return f"{decode(tokens[:first])}»{decode(tokens[first : first + 1], special=True)}«{decode(tokens[first + 1 :])}"
