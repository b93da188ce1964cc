"""How long a draft should be: expected tokens of a round, and what they cost, over the draft length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlab import plots
from kvlab.show import Table
from kvlab.speculative.rule import break_even, expected_tokens, speedup
from kvlab.validate import amount, whole
from kvlab.widgets.base import Controls, Explorer, Result
from kvlab.widgets.start import start_amount, start_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "How many tokens should a draft have, and from which acceptance on does it pay?"
MOST = 12


def draft_lengths(
    acceptance: float, cost_ratio: float, extra: float = 0.0, k: int = 4, most: int = MOST
) -> dict[str, Any]:
    """Expected tokens and speed-up for drafts of 1 to `most` tokens, by the formula.

    cost_ratio: a draft step in target steps. extra: what each further token adds to the verifying pass, in target
    steps, so that this pass takes 1 + extra * k: 0 while reading the weights takes all the time, 1 when computing does.
    Returns ks, tokens and speedups (lists), best (0 when no draft pays) and, for k, tokens_at_k, speedup_at_k,
    verify_cost and needed, the acceptance where k breaks even (inf: none). k above `most` raises ValueError.
    """
    chosen, last = whole("k", k, least=1), whole("most", most, least=1)
    if chosen > last:
        raise ValueError(f"k must be at most {last}, got {k}")
    step = amount("extra", extra)
    ks = list(range(1, last + 1))
    gains = [speedup(acceptance, n, cost_ratio, 1 + step * n) for n in ks]
    return {
        "ks": ks,
        "k": chosen,
        "tokens": [expected_tokens(acceptance, n) for n in ks],
        "speedups": gains,
        "best": ks[gains.index(max(gains))] if max(gains) > 1 else 0,
        "tokens_at_k": expected_tokens(acceptance, chosen),
        "speedup_at_k": gains[chosen - 1],
        "verify_cost": 1 + step * chosen,
        "needed": break_even(chosen, cost_ratio, 1 + step * chosen),
    }


def draft_length_figure(values: dict[str, Any]) -> Figure:
    """Tokens and speed-up over the draft length, a mark at the chosen one, and the line of plain decoding."""
    ks = values["ks"]
    series = {
        "expected tokens of a round": (ks, values["tokens"]),
        "times as fast as plain decoding": (ks, values["speedups"]),
        f"chosen: K = {values['k']}": ([values["k"]], [values["speedup_at_k"]]),
        "plain decoding": (ks, [1.0] * len(ks)),
    }
    figure = plots.lines(
        series, "draft tokens K", "tokens, or times as fast", "What a draft gives and what is left of it"
    )
    axes = figure.axes[0]
    axes.set_ylim(top=1.6 * axes.get_ylim()[1])  # room for the legend above the lines
    return figure


def draft_length_table(values: dict[str, Any]) -> Table:
    needed = values["needed"]
    rows = (
        ("draft tokens", f"{values['k']}"),
        ("expected tokens of a round", f"{values['tokens_at_k']:.2f}"),
        ("the verifying pass, in target steps", f"{values['verify_cost']:.2f}"),
        ("times as fast as plain decoding", f"{values['speedup_at_k']:.2f}"),
        ("acceptance where it breaks even", "none is enough" if needed == float("inf") else f"{needed:.2f}"),
        ("best length", f"K = {values['best']}" if values["best"] else "none: switch it off"),
    )
    return Table("By the formula", ("what", "value"), rows, width=40)


def draft_length(acceptance: float = 0.8, cost_ratio: float = 0.1, extra: float = 0.05, k: int = 4) -> Explorer:
    """Move acceptance, the cost of a draft step, the cost of further tokens in the verifying pass, and K."""

    def compute(acceptance: float, cost_ratio: float, extra: float, k: int) -> Result:
        values = draft_lengths(acceptance, cost_ratio, extra, k)
        alt = f"Speed-up by draft length; {values['speedup_at_k']:.2f} at K = {k}, best at {values['best'] or 'none'}."
        return Result(values, draft_length_table(values), draft_length_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        def slider(value: float, name: str) -> Any:
            return ipywidgets.FloatSlider(
                value=value, min=0, max=1, step=0.01, description=name, continuous_update=False
            )

        return {
            "acceptance": slider(acceptance, "Acceptance"),
            "cost_ratio": slider(cost_ratio, "Draft step"),
            "extra": slider(extra, "Extra token"),
            "k": ipywidgets.IntSlider(value=k, min=1, max=MOST, description="K", continuous_update=False),
        }

    for name, value in (("acceptance", acceptance), ("cost_ratio", cost_ratio), ("extra", extra)):
        start_amount(name, value, 0, 1)
    start_value("k", k, 1, MOST)
    settings = {"acceptance": acceptance, "cost_ratio": cost_ratio, "extra": extra, "k": k}
    return Explorer(QUESTION, settings, compute, build).show()
