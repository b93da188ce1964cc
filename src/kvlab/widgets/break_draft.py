"""Plant a mistake in speculative decoding: which test notices, and what becomes of text and speed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kvlab import faults, plots
from kvlab.cache import PreallocatedCache
from kvlab.generate import generate_cached
from kvlab.model import Llama
from kvlab.sampling import SamplingSettings
from kvlab.show import Table
from kvlab.speculative import (
    EarlyExit,
    ModelDraft,
    chi_square,
    plain_probs,
    speculative_counts,
    speculative_generate,
    tiny_pair,
)
from kvlab.speculative.drafts import Proposal
from kvlab.widgets.base import Controls, Explorer, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "Speculative decoding has a mistake: does the text show it, and which test fails?"
PROMPT = "Once there was a shy girl named Vera. Vera had a"
NONE = "none"
DRAFT_FAULTS = (
    NONE,
    "resampled_from_target",
    "draft_probs_unfiltered",
    "bonus_from_draft",
    "target_cache_kept",
)
CONTINUATIONS = 200_000
REJECTED = 1e-6  # the share of honest samples that would turn a test red
FILTERS = SamplingSettings(temperature=0.9, top_k=3, top_p=0.97, seed=0)
PLAIN = SamplingSettings(seed=0)

GREEDY = "T = 0: the tokens are those of plain decoding"
FREE = "T = 1: the continuations follow the target"
FILTERED = "with top-k and top-p they follow it too"


class OneHotDraft(ModelDraft):
    """A greedy draft that hands over its rows too, so that the rule decides at T = 0, not a short cut of the loop."""

    def propose(self, *args: Any, **kwargs: Any) -> Proposal:
        proposal = super().propose(*args, **kwargs)
        if proposal.probs is not None or not proposal.tokens:
            return proposal
        rows = torch.nn.functional.one_hot(torch.tensor(proposal.tokens), self.model.config.vocab_size)
        return Proposal(proposal.tokens, rows.double())


@torch.no_grad()
def run_draft_fault(
    model: Llama, draft: Llama, fault: str, prompt: str = PROMPT, n_new: int = 40, k: int = 4, seed: int = 0
) -> dict[str, Any]:
    """Three tests of speculative decoding under one planted fault, and a text.

    fault: one of DRAFT_FAULTS. model, draft: a pair in float64, for the text. The test at T = 0 drafts with half of
    the target's layers, since a draft that is never rejected tests nothing (with one layer: `draft`), and lets the
    rule decide. The other two tests count 200,000 continuations of three tokens of `tiny_pair` and compare them with
    plain decoding's exact probabilities. Returns fault, checks {name: passed}, p_values {name: p}, expected and
    counted (shares of the continuations with filters, by falling probability), text (sampled with filters),
    greedy_text and acceptance (both at T = 0).
    """
    if fault not in DRAFT_FAULTS:
        raise ValueError(f"there is no draft fault '{fault}': choose one of {', '.join(DRAFT_FAULTS)}")
    if not prompt.strip() or n_new < 2:
        raise ValueError("the prompt needs a word, and n_new must be at least 2")
    plain = generate_cached(model, prompt, n_new, ignore_eos=True).tokens
    pair, start, length = tiny_pair(), [0, 1], 3
    settings = {FREE: PLAIN, FILTERED: FILTERS}
    right = {name: plain_probs(pair[0], start, length, chosen) for name, chosen in settings.items()}
    half = model.config.n_layers // 2
    helper = OneHotDraft(EarlyExit(model, half).model if half else draft)
    with nullcontext() if fault == NONE else faults.plant(fault):
        counts = {
            name: speculative_counts(*pair, start, length, 2, CONTINUATIONS, chosen, seed=seed)
            for name, chosen in settings.items()
        }
        greedy = speculative_generate(model, helper, prompt, n_new, k, cache=_cache(model, n_new, k), ignore_eos=True)
        sampled = speculative_generate(
            model, draft, prompt, n_new, k, FILTERS, cache=_cache(model, n_new, k), ignore_eos=True
        )
    p_values = {name: chi_square(counts[name], right[name]).p_value for name in settings}
    order = np.argsort(-right[FILTERED], kind="stable")
    return {
        "fault": fault,
        "checks": {GREEDY: greedy.tokens == plain, **{name: p > REJECTED for name, p in p_values.items()}},
        "p_values": p_values,
        "expected": right[FILTERED][order].tolist(),
        "counted": (counts[FILTERED][order] / CONTINUATIONS).tolist(),
        "text": sampled.text,
        "greedy_text": greedy.text,
        "acceptance": greedy.acceptance,
    }


def _cache(model: Llama, n_new: int, k: int) -> PreallocatedCache:
    """Room for a target that never forgets a rejected token."""
    room = min(model.config.max_len, 512 + n_new * (k + 1))
    return PreallocatedCache(model.config, room, dtype=model.dtype, device=model.device)


def draft_fault_figure(values: dict[str, Any], most: int = 12) -> Figure:
    """Shares of the likeliest continuations: expected from plain decoding, and counted. A share of 0 has no mark."""
    places = list(range(1, most + 1))
    series = {
        "plain decoding (exact)": (places, [100 * share for share in values["expected"][:most]]),
        "speculative (counted)": (places, [100 * share for share in values["counted"][:most]]),
    }
    title = f"fault: {values['fault']}"
    figure = plots.lines(
        series, "continuation, by falling probability", "share of all (%; 0: no mark)", title, logy=True
    )
    figure.axes[0].set_xticks(places)
    return figure


def draft_fault_table(values: dict[str, Any]) -> Table:
    rows = []
    for name, good in values["checks"].items():
        p = f" (p = {values['p_values'][name]:.2g})" if name in values["p_values"] else ""
        rows.append((f"check: {name}", f"{'✓ passes' if good else '✗ FAILS'}{p}"))
    rows.append(("acceptance at T = 0", f"{values['acceptance']:.2f}"))
    name = values["fault"]
    summary = "no mistake planted" if name == NONE else faults.FAULTS[name].summary
    notes = (f"sampled text: {values['text']}", f"text at T = 0: {values['greedy_text']}")
    return Table(f"{name}: {summary}", ("what", "result"), tuple(rows), notes=notes, width=50)


def break_draft(model: Llama, draft: Llama, fault: str = NONE) -> Explorer:
    """Choose a mistake in speculative decoding; see the three tests, the counts and a text."""

    def compute(fault: str) -> Result:
        values = run_draft_fault(model, draft, fault)
        red = [name for name, good in values["checks"].items() if not good]
        alt = (
            f"Shares of the likeliest continuations, expected and counted; tests that fail: {'; '.join(red) or 'none'}."
        )
        return Result(values, draft_fault_table(values), draft_fault_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        return {"fault": ipywidgets.Dropdown(options=DRAFT_FAULTS, value=fault, description="Fault")}

    return Explorer(QUESTION, {"fault": fault}, compute, build).show()
