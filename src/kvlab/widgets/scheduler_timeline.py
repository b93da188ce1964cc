"""A scheduler at work: who computes what in which step, from the engine's own log on a counted clock."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvlab import plots
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result
from kvlab.widgets.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kvlab.model import Llama

QUESTION = (
    "Who computes what in each step, and what do the policy, max_seqs and the token budget do to the longest gap?"
)
PER_STEP, PER_TOKEN = 1.0, 0.05  # units of the counted clock
MOST_SEQS, MOST_BUDGET = 8, 128


@dataclass(frozen=True)
class Visit:
    """One request asks for something: when, how many tokens it brings, how many it wants."""

    arrival: float
    prompt: int
    answer: int


# Short chats, and two long prompts that arrive while others are being answered.
DAY = (
    Visit(0, 8, 24),
    Visit(0, 12, 6),
    Visit(1, 10, 30),
    Visit(6, 96, 8),
    Visit(8, 6, 5),
    Visit(12, 14, 18),
    Visit(15, 8, 4),
    Visit(20, 64, 12),
    Visit(22, 10, 10),
    Visit(24, 12, 6),
)


def timeline(
    model: Llama, policy: str = "chunked", max_seqs: int = 4, token_budget: int = 16, visits: Sequence[Visit] = DAY
) -> dict[str, Any]:
    """Serve the visits on a counted clock: a step costs 1 unit, and 0.05 for each of its tokens.

    Returns bars (request, start, end, kind, tokens) with kind "prefill", "decode" or "padding", requests (id, arrival,
    ttft, longest gap, end), steps, positions, padding, most_tokens (in one step), gap_p50, gap_p99, ttft_p50, end and
    outputs. The same settings give the same values on every machine.
    ValueError for an unknown policy, sizes below 1, a budget below max_seqs under "chunked", or no visits.
    """
    from kvlab.engine import Engine, Request, StepClock
    from kvlab.engine.trace import summarise

    if not visits:
        raise ValueError("there are no visits: give at least one")
    block_size = 16
    blocks = sum(-(-(visit.prompt + visit.answer) // block_size) for visit in visits)  # memory is not the question here
    engine = Engine(model, blocks, block_size, policy, max_seqs, token_budget, False, StepClock(PER_STEP, PER_TOKEN))
    requests = [
        Request(
            chr(ord("A") + i) if len(visits) <= 26 else str(i),
            [(7 * i + 3 * j) % model.config.vocab_size for j in range(visit.prompt)],
            visit.answer,
            arrival=float(visit.arrival),
            ignore_eos=True,
        )
        for i, visit in enumerate(visits)
    ]
    prompts = {request.id: len(request.prompt) for request in requests}
    engine.run(requests)
    summary = summarise(engine)
    return {
        "policy": policy,
        "max_seqs": max_seqs,
        "token_budget": token_budget,
        "bars": [
            (name, step.start, step.end, _kind(first, prompts[name], padding), n)
            for step in engine.log
            for name, first, n, padding in step.work
        ],
        "requests": [(r.id, r.arrival, r.ttft, max(r.gaps, default=math.nan), r.token_times[-1]) for r in requests],
        "steps": summary.steps,
        "positions": summary.positions,
        "padding": sum(step.n_padding for step in engine.log),
        "most_tokens": max(step.n_tokens for step in engine.log),
        "gap_p50": summary.gap_p50,
        "gap_p99": summary.gap_p99,
        "ttft_p50": summary.ttft_p50,
        "end": engine.log[-1].end,
        "outputs": [list(request.output) for request in requests],
    }


def timeline_figure(values: dict[str, Any]) -> Figure:
    """One row per request, time to the right; plain blue reads a prompt, hatched orange writes, grey is padding."""
    looks: dict[str, dict[str, Any]] = {
        "prefill": {"facecolor": plots.PALETTE[0]},
        "decode": {"facecolor": plots.PALETTE[4], "hatch": "///"},
        "padding": {"facecolor": plots.MUTED, "hatch": "xx"},
    }
    xlabel = "time (units of the counted clock)"
    figure, axes = plots._new_figure(xlabel, "request", f"{values['policy']}: {counted(values['steps'], 'step')}")
    rows = {name: i for i, (name, *_) in enumerate(values["requests"])}
    spans: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for name, start, end, kind, _ in values["bars"]:
        spans[kind][name].append((start, end - start))
    for name, arrival, _, _, end in values["requests"]:
        axes.plot([arrival, end], [rows[name]] * 2, color="black", linewidth=0.6, zorder=0)
    for kind, look in looks.items():
        label: str | None = kind
        for name, pieces in spans[kind].items():
            axes.broken_barh(pieces, (rows[name] - 0.4, 0.8), edgecolor="white", linewidth=0.4, label=label, **look)
            label = None
    axes.set_yticks(list(rows.values()), list(rows))
    axes.set_xlim(0, values["end"])
    axes.invert_yaxis()
    axes.legend(loc="lower left")
    return figure


def timeline_table(values: dict[str, Any]) -> Table:
    reasons = {
        "continuous": ": a prompt above the budget is not cut, it gets a step to itself",
        "static": ": this policy asks for no budget",
    }
    rows = [
        (name, f"{arrival:.0f}", f"{ttft:.1f}", "-" if math.isnan(gap) else f"{gap:.2f}", f"{end:.1f}")
        for name, arrival, ttft, gap, end in values["requests"]
    ]
    notes = (
        f"{counted(values['steps'], 'step')}, {counted(values['positions'], 'position')} computed, {values['padding']} of them padding; "
        f"at most {counted(values['most_tokens'], 'token')} in a step{reasons.get(values['policy'], '')}",
        f"TTFT p50 {values['ttft_p50']:.1f} · gap p50 {values['gap_p50']:.2f}, p99 {values['gap_p99']:.2f} · "
        f"all done at {values['end']:.1f}; times in units of the counted clock",
    )
    title = f"{values['policy']}, max_seqs {values['max_seqs']}, token budget {values['token_budget']}"
    return Table(title, ("request", "arrival", "TTFT", "longest gap", "done at"), tuple(rows), notes=notes)


def scheduler_timeline(
    model: Llama, policy: str = "chunked", max_seqs: int = 4, token_budget: int = 16, visits: Sequence[Visit] = DAY
) -> Explorer:
    """Serve ten requests under a policy and see the steps. Settings as in `timeline`."""

    def compute(policy: str, max_seqs: int, token_budget: int) -> Result:
        values = timeline(model, policy, max_seqs, token_budget, visits)
        alt = (
            f"Timeline of {counted(len(values['requests']), 'request')} in {counted(values['steps'], 'step')}; longest step "
            f"{counted(values['most_tokens'], 'token')}, p99 gap {values['gap_p99']:.2f}, padding {values['padding']}."
        )
        return Result(values, timeline_table(values), timeline_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        from kvlab.engine import POLICIES

        return {
            "policy": ipywidgets.Dropdown(options=POLICIES, value=policy, description="Policy"),
            "max_seqs": ipywidgets.IntSlider(
                value=max_seqs, min=1, max=max(max_seqs, MOST_SEQS), description="max_seqs", continuous_update=False
            ),
            "token_budget": ipywidgets.IntSlider(
                value=token_budget,
                min=1,
                max=max(token_budget, MOST_BUDGET),
                description="Budget",
                continuous_update=False,
            ),
        }

    settings = {"policy": policy, "max_seqs": max_seqs, "token_budget": token_budget}
    return Explorer(QUESTION, settings, compute, build).show()


def _kind(first: int, prompt: int, padding: bool) -> str:
    if padding:
        return "padding"
    return "prefill" if first < prompt else "decode"
