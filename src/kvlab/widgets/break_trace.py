"""Plant a real mistake in the model: at which stage do trace and model part, and does the text show it?"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from kvlab import faults, plots
from kvlab.generate import generate_cached
from kvlab.model import Llama
from kvlab.show import Table
from kvlab.trace import check, trace_call
from kvlab.trace.compare import LIMIT
from kvlab.widgets.base import Controls, Explorer, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "The model has a mistake: which stage shows it first, and does the text show it at all?"
PROMPT = "Once there was a brave boy named Felix. Felix had a"
NONE = "none"
TRACE_FAULTS = (
    NONE,
    "final_norm_left_out",
    "residual_left_out",
    "position_off_by_one",
    "rope_neighbours",
    "stale_cache",
)
SHOWN = 1e-9  # a logarithmic axis needs something above zero


def run_trace_fault(model: Llama, fault: str, prompt: str = PROMPT, n_new: int = 30) -> dict[str, Any]:
    """Trace the call, plant a fault in the model, compare. The fault ends with the call.

    Returns fault, first_wrong (label of the first stage apart, None), first_name (its name without phase and block),
    n_wrong, n_stages, by_stage {name: the largest difference as a share of the stage's size}, text_right and text_wrong.
    """
    if fault not in TRACE_FAULTS:
        raise ValueError(f"there is no fault '{fault}': choose one of {', '.join(TRACE_FAULTS)}")
    trace = trace_call(model, prompt)
    right = generate_cached(model, prompt, n_new)
    planted: AbstractContextManager[Any] = nullcontext() if fault == NONE else faults.plant(fault)
    with planted:
        found = check(trace, model)
        wrong = generate_cached(model, prompt, n_new)
    by_stage: dict[str, float] = {}
    for difference in found.differences:
        if not difference.stage.name.startswith("sampling"):  # greedy: all but one are -inf
            by_stage[difference.stage.name] = max(by_stage.get(difference.stage.name, 0.0), difference.relative)
    return {
        "fault": fault,
        "first_wrong": None if found.first_wrong is None else found.first_wrong.stage.label,
        "first_name": None if found.first_wrong is None else found.first_wrong.stage.name,
        "n_wrong": sum(not d.ok for d in found.differences),
        "n_stages": len(found.differences),
        "by_stage": by_stage,
        "text_right": right.text,
        "text_wrong": wrong.text,
    }


def trace_fault_figure(values: dict[str, Any]) -> Figure:
    """One point per stage: how far trace and model are apart, over all blocks and both phases.

    A ring marks the stage that is apart first. Stages to its left may be apart too: in later blocks.
    """
    names = list(values["by_stage"])
    places = list(range(len(names)))
    heights = [max(SHOWN, min(value, 1e3)) for value in values["by_stage"].values()]
    series = {
        "largest of all blocks": (places, heights),
        f"limit, {LIMIT:g}": ([0, len(names) - 1], [LIMIT, LIMIT]),
    }
    marked = values["first_name"] in names
    if marked:
        place = names.index(values["first_name"])
        series["first apart"] = ([place], [heights[place]])
    title = f"fault: {values['fault']}"
    figure = plots.lines(series, "stage", "difference / largest number", title, logy=True)
    axes = figure.axes[0]
    if marked:
        axes.get_lines()[-1].set(linestyle="none", marker="o", markersize=13, fillstyle="none", markeredgewidth=2)
        axes.legend()
    axes.set_xticks(places, names, rotation=90, fontsize=7)
    axes.set_ylim(SHOWN / 2, 2e4)  # the ring at the top whole
    return figure


def trace_fault_table(values: dict[str, Any]) -> Table:
    name = values["fault"]
    rows = (
        ("first stage apart", values["first_wrong"] or "none"),
        ("tensors apart", f"{values['n_wrong']} of {values['n_stages']}"),
        ("text without the fault", values["text_right"]),
        ("text with the fault", values["text_wrong"]),
        ("texts are equal", "yes" if values["text_right"] == values["text_wrong"] else "no"),
    )
    summary = "no mistake planted" if name == NONE else faults.FAULTS[name].summary
    return Table(f"{name}: {summary}", ("what", "result"), rows, width=64)


def break_trace(model: Llama, prompt: str = PROMPT, n_new: int = 30, fault: str = NONE) -> Explorer:
    """Choose a mistake and see where the trace leaves the model. `fault` is the one to start with."""

    def compute(fault: str, prompt: str) -> Result:
        values = run_trace_fault(model, fault, prompt, n_new)
        alt = f"Differences by stage; first apart: {values['first_wrong'] or 'none'}."
        return Result(values, trace_fault_table(values), trace_fault_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        wide = ipywidgets.Layout(width="90%")
        return {
            "fault": ipywidgets.Dropdown(options=TRACE_FAULTS, value=fault, description="Fault"),
            "prompt": ipywidgets.Text(value=prompt, description="Prompt", continuous_update=False, layout=wide),
        }

    return Explorer(QUESTION, {"fault": fault, "prompt": prompt}, compute, build).show()
