"""What fewer bits do to one real matrix: error and bytes, over the bits and the number of weights that share a scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kvlab import plots
from kvlab.quantize import dequantize_rows, quantize_rows, quantized_bytes
from kvlab.show import Table
from kvlab.validate import whole
from kvlab.widgets.base import Controls, Explorer, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "How large is the error of a matrix in few bits, and what does it weigh with its scales?"
BITS = (2, 3, 4, 5, 6, 7, 8)


def bit_errors(weights: Any, bits: int = 4, group: int | None = None) -> dict[str, Any]:
    """Relative error and size of a matrix (rows, columns) in 2 to 8 bits, rounded as `kvlab.quantize` does.

    group: neighbours of a row that share a float32 scale; it must divide the columns; None = the whole row.
    Returns errors {bits: root mean square error over that of the weights}, sizes {bits: bytes, scales included}, and
    for `bits` error, nbytes, bits_per_weight, and ratio (how much smaller than 16 bits). Bad arguments: ValueError.
    """
    matrix = np.asarray(weights.detach().cpu().float() if hasattr(weights, "detach") else weights)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"weights must be a matrix (rows, columns), got shape {matrix.shape}")
    rows, columns = matrix.shape
    size = columns if group is None else whole("group", group, least=1)
    if columns % size:
        raise ValueError(f"{columns} columns cannot be divided into groups of {size}")
    if bits not in BITS:
        raise ValueError(f"bits must be from 2 to 8, got {bits!r:.40}")
    power = float(np.square(matrix, dtype=np.float64).mean())
    if power == 0:
        raise ValueError("the weights are all 0, so a relative error means nothing")
    errors, sizes = {}, {}
    for n in BITS:
        rounded = dequantize_rows(*quantize_rows(matrix.reshape(-1, size), n)).reshape(matrix.shape)
        errors[n] = (float(np.square(rounded - matrix, dtype=np.float64).mean()) / power) ** 0.5
        sizes[n] = quantized_bytes(rows, columns, n, size)
    return {
        "errors": errors,
        "sizes": sizes,
        "bits": bits,
        "group": size,
        "shape": (rows, columns),
        "error": errors[bits],
        "nbytes": sizes[bits],
        "bits_per_weight": 8 * sizes[bits] / matrix.size,
        "ratio": 2 * matrix.size / sizes[bits],
    }


def bits_figure(values: dict[str, Any]) -> Figure:
    """The error over the bits, on a logarithmic axis, and a mark at the chosen number."""
    errors, chosen = values["errors"], values["bits"]
    series = {
        f"{values['group']} weights share a scale": (list(errors), [100 * e for e in errors.values()]),
        f"chosen: {chosen} bits": ([chosen], [100 * errors[chosen]]),
    }
    rows, columns = values["shape"]
    return plots.lines(series, "bits of a code", "error (% of the weights)", f"{rows} x {columns} weights", logy=True)


def bits_table(values: dict[str, Any]) -> Table:
    rows = (
        ("codes", f"{values['bits']} bits, from -{2 ** (values['bits'] - 1) - 1} to {2 ** (values['bits'] - 1) - 1}"),
        ("weights that share a scale", f"{values['group']}"),
        ("error", f"{values['error']:.2%} of the weights"),
        ("bytes, float32 scales included", f"{values['nbytes']:,}"),
        ("bits per weight", f"{values['bits_per_weight']:.2f}"),
        ("smaller than in 16 bits", f"{values['ratio']:.2f} times"),
    )
    notes = ("Codes of 5 to 8 bits take a byte here, codes of up to 4 bits half a byte.",)
    return Table("One matrix in few bits", ("what", "value"), rows, notes=notes, width=44)


def bits(weights: Any, bits: int = 4, group: int | None = None, groups: tuple[int, ...] = ()) -> Explorer:
    """Choose the bits, and how many neighbours share a scale: one of `groups`, or a whole row."""
    columns = int(weights.shape[1])
    choices = sorted({columns, *groups, *([group] if group else [])})

    def compute(bits: int, group: int) -> Result:
        values = bit_errors(weights, bits, group)
        alt = f"Error by bits, falling; {values['error']:.1%} at {bits} bits with {group} weights to a scale."
        return Result(values, bits_table(values), bits_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        return {
            "bits": ipywidgets.IntSlider(value=bits, min=2, max=8, description="Bits", continuous_update=False),
            "group": ipywidgets.Dropdown(options=choices, value=group or columns, description="Group"),
        }

    return Explorer(QUESTION, {"bits": bits, "group": group or columns}, compute, build).show()
