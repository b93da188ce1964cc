"""Step through one call: every tensor between a text and its first two tokens, as numbers and as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kvlab import plots
from kvlab.model import Llama
from kvlab.sampling import SamplingSettings
from kvlab.show import Table
from kvlab.trace import Stage, Trace, trace_call
from kvlab.widgets.base import Controls, Explorer, Result, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "What becomes of a text on its way to the next token, and what shape has it at each stage?"
SETTINGS = SamplingSettings(temperature=0.7, top_p=0.9, seed=0)
BEST = 10  # tokens shown of a row over the vocabulary
FIRST = 6  # numbers shown of any tensor
BY_HEAD = ("q", "k", "v", "q rotated", "k rotated", "keys held", "values held", "scores", "weights")
OVER_QUERIES = ("scores", "weights")


def steps_of(trace: Trace, layer: int = 0) -> tuple[Stage, ...]:
    """The stages to step through: those outside the blocks and those of one block, in order.

    ValueError for a block that the model does not have.
    """
    last = max(s.layer for s in trace.stages if s.layer is not None)
    if not 0 <= layer <= last:
        raise ValueError(f"block must be from 0 to {last}, got {layer}")
    return tuple(s for s in trace.stages if s.layer in (None, layer))


def stage_at(model: Llama, trace: Trace, step: int, layer: int = 0, head: int = 0) -> dict[str, Any]:
    """What is shown at a step of `steps_of`.

    Returns step, n_steps (the last step), name, phase, layer, shape, formula, explanation, head (None where the stage
    has no heads), matrix (2-D numpy of one head, or of the tensor as it is; None for a row over the vocabulary, bytes,
    ids and the token), rows and columns (labels of its axes), best (the likeliest tokens of a row over the vocabulary, as
    [(piece, number)]), first (its first numbers), least and most (finite ones only), and text (of ids and the token).
    """
    steps = steps_of(trace, layer)
    if not 0 <= step < len(steps):
        raise ValueError(f"step must be from 0 to {len(steps) - 1}, got {step}")
    stage = steps[step]
    array = stage.tensor.cpu().double().numpy()
    with_heads = stage.name in BY_HEAD
    if with_heads and not 0 <= head < len(array):
        head = 0 if head < 0 else len(array) - 1  # K and V have fewer heads than Q
    matrix = array[head] if with_heads else array if array.ndim == 2 else None
    finite = array[np.isfinite(array)]
    return {
        "step": step,
        "n_steps": len(steps) - 1,
        "name": stage.name,
        "phase": stage.phase,
        "layer": stage.layer,
        "shape": stage.shape,
        "formula": stage.formula,
        "explanation": stage.explanation,
        "head": head if with_heads else None,
        "matrix": matrix,
        "rows": _rows(model, trace, stage, matrix),
        "columns": _pieces(model, _held(trace, stage)) if stage.name in OVER_QUERIES else None,
        "best": _best(model, array) if stage.name != "bytes" and array.shape == (model.config.vocab_size,) else [],
        "first": [float(value) for value in array.flat[:FIRST]],
        "least": float(finite.min()) if finite.size else math.nan,
        "most": float(finite.max()) if finite.size else math.nan,
        "text": _text(model, stage),
    }


def stage_figure(values: dict[str, Any]) -> Figure:
    """A heat map of a matrix, bars of the likeliest tokens, or bars of the few numbers there are."""
    title = plain(_label(values))
    matrix = values["matrix"]
    if values["best"]:
        heights = {f"{i + 1}. {plain(repr(piece))}": number for i, (piece, number) in enumerate(values["best"])}
        what = "probability" if values["name"] == "probabilities" else "logit (no unit)"
        return plots.bars(heights, "the likeliest tokens", what, title)
    if matrix is None:
        numbers = {str(i): value for i, value in enumerate(values["first"])}
        return plots.bars(numbers, "place in the list", "number (no unit)", title)
    cells = np.where(np.isfinite(matrix), matrix, np.nan)  # a masked score stays blank
    reach = float(np.nanmax(np.abs(cells))) or 1.0
    columns = values["columns"]
    return plots.heatmap(
        cells,
        [plain(f"{i} {piece[:16]}") for i, piece in values["rows"]],
        None if columns is None else [plain(piece[:8]) for piece in columns],
        title,
        xlabel="position that is looked at" if columns else "number within the row",
        ylabel="position and token",
        value_label="value (no unit)",
        reach=None if values["name"] == "weights" else reach,
    )


def stage_table(values: dict[str, Any]) -> Table:
    where = "" if values["layer"] is None else f", block {values['layer']}"
    head = [] if values["head"] is None else [("head in the picture", str(values["head"]))]
    if values["best"]:
        numbers = ", ".join(f"{piece!r} {number:.4g}" for piece, number in values["best"])
        first = ("likeliest tokens", numbers)
    else:
        first = ("first numbers", ", ".join(f"{value:.4g}" for value in values["first"]))
    rows = (
        ("step", f"{values['step']} of {values['n_steps']} ({values['phase']}{where})"),
        ("stage", values["name"]),
        ("what it is", values["explanation"]),
        ("formula", values["formula"]),
        ("shape", str(values["shape"]) if values["shape"] else "one number"),
        *head,
        first,
        *([("as text", values["text"])] if values["text"] else []),
        ("smallest and largest", f"{values['least']:.4g} and {values['most']:.4g}"),
    )
    return Table(_label(values), ("what", "value"), rows, width=64)


def trace_stepper(
    model: Llama, text: str = "mom washed the", settings: SamplingSettings = SETTINGS, step: int = 0
) -> Explorer:
    """Step through the trace of a text of the learner's own; arrow keys move the sliders."""
    last: dict[str, Trace] = {}

    def compute(text: str, step: int, layer: int, head: int) -> Result:
        if text not in last:
            found = trace_call(model, text, settings)
            last.clear()
            last[text] = found
        most = len(steps_of(last[text], layer)) - 1
        values = stage_at(model, last[text], min(step, most), layer, head)
        alt = f"{_label(values)}: shape {values['shape']}, from {values['least']:.4g} to {values['most']:.4g}."
        return Result(values, stage_table(values), stage_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        wide = ipywidgets.Layout(width="90%")
        most = len(steps_of(last[text])) - 1
        return {
            "text": ipywidgets.Text(value=text, description="Text", continuous_update=False, layout=wide),
            "step": ipywidgets.IntSlider(
                value=step, min=0, max=most, description="Step", continuous_update=False, layout=wide
            ),
            "layer": ipywidgets.Dropdown(options=range(model.config.n_layers), value=0, description="Block"),
            "head": ipywidgets.Dropdown(options=range(model.config.n_heads), value=0, description="Head"),
        }

    def adjust(controls: Controls, values: dict[str, Any]) -> None:
        controls["step"].max = values["n_steps"]

    return Explorer(QUESTION, {"text": text, "step": step, "layer": 0, "head": 0}, compute, build, adjust=adjust).show()


def _label(values: dict[str, Any]) -> str:
    parts = [values["phase"], *([] if values["layer"] is None else [f"block {values['layer']}"]), values["name"]]
    return ", ".join(parts + ([] if values["head"] is None else [f"head {values['head']}"]))


def _held(trace: Trace, stage: Stage) -> list[int]:
    """Ids of the positions that are held during the stage's pass."""
    return list(trace.ids) if stage.phase == "prefill" else [*trace.ids, trace.tokens[0]]


def _rows(model: Llama, trace: Trace, stage: Stage, matrix: np.ndarray | None) -> list[tuple[int, str]]:
    """Position and token of each row of the matrix: its rows are the last ones held."""
    if matrix is None:
        return []
    pieces = _pieces(model, _held(trace, stage))
    return list(enumerate(pieces))[len(pieces) - len(matrix) :]


def _best(model: Llama, row: np.ndarray) -> list[tuple[str, float]]:
    order = np.argsort(-row, kind="stable")[:BEST]
    left = row > 0 if row.min() == 0 else np.isfinite(row)  # probabilities: those above 0; a logit may well be 0
    return [(_pieces(model, [int(i)])[0], float(row[i])) for i in order if left[i]]


def _text(model: Llama, stage: Stage) -> str:
    """Ids and the token as text."""
    if stage.name not in ("ids", "token"):
        return ""
    return " ".join(repr(piece) for piece in _pieces(model, stage.tensor.flatten().tolist()))


def _pieces(model: Llama, ids: list[int]) -> list[str]:
    return [str(i) for i in ids] if model.tokenizer is None else model.tokenizer.pieces(ids)
