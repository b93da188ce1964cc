"""The same stages without weights: shapes, bytes and FLOPs of one call on any model of the Llama type."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvlab.arithmetic import causal_pairs, format_bytes
from kvlab.published import PublishedModel, shape_of
from kvlab.show import Table
from kvlab.trace.kinds import KINDS, PHASES, PREFILL, Kind
from kvlab.validate import amount, whole


@dataclass(frozen=True)
class StageShape:
    """One stage. It happens `times` in a pass (once per block, or once); bytes and flops are those of one time.

    bytes: of the tensor itself, 0 for ids and tokens; weight_bytes: of the weights that the stage reads once whatever
    the length (a look-up in the token table reads a few rows and counts none); flops: two per multiply-add, norms, RoPE,
    softmax and sums left out, as in `kvlab.arithmetic.pass_macs`, whose total the stages add up to.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    times: int
    bytes: int | float
    weight_bytes: int | float
    flops: int
    formula: str
    explanation: str


def shapes_of(model: Any, prompt_len: int, phase: str = PREFILL, bytes_per_value: float = 2) -> tuple[StageShape, ...]:
    """The stages of one pass: the prompt of `prompt_len` tokens, or (`phase="decode"`) the first step after it.

    model: a name such as "llama-3-8b", a PublishedModel, a ModelConfig, a model or a dict. The stage "bytes" is left
    out, for it depends on the text. ValueError for models that are not plain Llamas, and lengths beyond the window.
    """
    shape = shape_of(model)
    shape.to_config()  # refuses other kinds of layers
    if phase not in PHASES:
        raise ValueError(f"phase must be one of {', '.join(PHASES)}, got {phase!r:.40}")
    prompt = whole("prompt_len", prompt_len, least=1)
    width = amount("bytes_per_value", bytes_per_value, positive=True)
    new, past = (prompt, 0) if phase == PREFILL else (1, prompt)
    if new + past > shape.max_len:
        raise ValueError(
            f"{new + past} positions exceed the window of {shape.name}, {shape.max_len}: shorten the prompt"
        )
    sizes = _sizes(shape, new, past)
    pairs = causal_pairs(new, past)
    return tuple(_stage_shape(kind, shape, sizes, pairs, width) for kind in KINDS if kind.name != "bytes")


def _sizes(shape: PublishedModel, new: int, past: int) -> dict[str, int]:
    """What each letter of the axes stands for."""
    return {
        "1": 1,
        "n": new,
        "m": new + past,
        "D": shape.d_model,
        "H": shape.n_heads,
        "G": shape.n_kv_heads,
        "d": shape.d_head,
        "d/2": shape.d_head // 2,
        "H·d": shape.n_heads * shape.d_head,
        "G·d": shape.n_kv_heads * shape.d_head,
        "F": shape.d_ff,
        "V": shape.vocab_size,
    }


def _stage_shape(
    kind: Kind, shape: PublishedModel, sizes: dict[str, int], pairs: int, width: int | float
) -> StageShape:
    axes = tuple(sizes[letter] for letter in kind.axes)
    weights = math.prod(sizes[letter] for letter in kind.weight) if kind.weight else 0
    rows = 1 if kind.place == "end" else sizes["n"]
    macs = rows * weights if len(kind.weight) == 2 else pairs * sizes["H·d"] if kind.pairs else 0
    return StageShape(
        name=kind.name,
        axes=kind.axes,
        shape=axes,
        times=shape.n_layers if kind.place == "block" else 1,
        bytes=0 if kind.name in ("ids", "token") else math.prod(axes) * width,
        weight_bytes=weights * width,
        flops=2 * macs,
        formula=kind.formula,
        explanation=kind.explanation,
    )


def shapes_table(models: Sequence[Any], prompt_len: int, phase: str = PREFILL, bytes_per_value: float = 2) -> Table:
    """Models side by side, one row per stage: how often, then each model's shape, weights read and FLOPs."""
    if not models or isinstance(models, str):
        raise ValueError("models must be a list with at least one model")
    names = [shape_of(model).name for model in models]
    columns = [shapes_of(model, prompt_len, phase, bytes_per_value) for model in models]
    rows = []
    for stages in zip(*columns, strict=True):
        cells = [stages[0].name, " × ".join(stages[0].axes), "every block" if stages[0].times > 1 else "once"]
        for stage in stages:
            read = format_bytes(stage.weight_bytes) if stage.weight_bytes else ""
            cells += [" × ".join(map(str, stage.shape)), read, f"{stage.flops:.3g}" if stage.flops else ""]
        rows.append(tuple(cells))
    header = ["stage", "axes", "how often"]
    for name in names:
        header += [f"{name}: shape", "weights read", "FLOPs"]
    title = f"One call of {prompt_len} tokens, {phase}: shapes"
    return Table(title, tuple(header), tuple(rows))
