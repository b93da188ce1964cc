"""Small plotting helpers with one look: labelled axes, a colour-blind-safe palette, legends that need no colour.

Each helper returns a closed matplotlib Figure: put it on the last line of a cell, or `display` it, and it is shown
exactly once. (A figure left open would be shown a second time by Jupyter's inline backend, and would stay in memory.)
In a notebook it carries a description of its axes and lines for screen readers (`kvlab.described`).
Axis labels carry the unit, as in "time per token (ms)"; an empty label, or nothing to draw, raises ValueError.
matplotlib is imported when the first figure is made, and needs no screen.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette (jfly.uni-koeln.de/color), the strong colours first; yellow is too pale for lines.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MUTED = "#BBBBBB"
MARKERS = "osD^vPX"
SEQUENTIAL = "Blues"
DIVERGING = "PuOr"  # orange to purple: told apart with every common kind of colour blindness


def lines(
    series: Mapping[str, Sequence[Any]],
    xlabel: str,
    ylabel: str,
    title: str = "",
    logx: bool = False,
    logy: bool = False,
) -> Figure:
    """One line per entry of `series`: {name: (x, y)}, or {name: (x, y, low, high)} to shade a range around y."""
    if not series:
        raise ValueError("series is empty: there is no line to draw")
    for name, data in series.items():
        if len(data) not in (2, 4) or len({len(part) for part in data}) != 1 or len(data[0]) == 0:
            raise ValueError(f"series {name!r} must be (x, y) or (x, y, low, high), all of one length above 0")
    figure, axes = _new_figure(xlabel, ylabel, title)
    for index, (name, data) in enumerate(series.items()):
        colour, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
        axes.plot(data[0], data[1], color=colour, marker=marker, markersize=5, label=name)
        if len(data) == 4:
            axes.fill_between(data[0], data[2], data[3], color=colour, alpha=0.2, linewidth=0)
    if logx:
        axes.set_xscale("log")
        places = sorted({float(x) for data in series.values() for x in data[0]})
        if len(places) <= 12:  # name the measured points, not powers of ten between them
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.minorticks_off()
    if logy:
        axes.set_yscale("log")
        if axes.get_ylim()[1] > 100 * axes.get_ylim()[0]:
            from matplotlib.ticker import LogLocator

            axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))  # all eight are a dense row that takes long to draw
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))  # a linear axis that starts elsewhere exaggerates
    axes.grid(alpha=0.3)
    if len(series) > 1:
        axes.legend()
    return figure


def bars(
    values: Mapping[str, float],
    xlabel: str,
    ylabel: str,
    title: str = "",
    muted: Collection[str] = (),
    limit: tuple[float, str] | None = None,
) -> Figure:
    """One bar per entry of `values`: {name: height}, with the number written above it.

    muted: names drawn in grey and hatched, such as tokens that a filter removed.
    limit: (height, name) of a dashed line across, such as a memory size.
    """
    if not values:
        raise ValueError("values is empty: there is no bar to draw")
    unknown = set(muted) - set(values)
    if unknown:
        raise ValueError(f"muted names no bar: {', '.join(sorted(unknown))}")
    figure, axes = _new_figure(xlabel, ylabel, title)
    places = range(len(values))  # places, not names: two tokens may look the same
    drawn = axes.bar(places, list(values.values()), color=PALETTE[0])
    axes.bar_label(drawn, fmt=_short, padding=2, fontsize=8)
    for name, bar in zip(values, drawn, strict=True):
        if name in muted:
            bar.set(facecolor=MUTED, hatch="//")
    wide = max(14, 60 // len(values))  # characters that fit below a bar
    names = [textwrap.fill(str(name), wide) for name in values]
    axes.set_xticks(places, names)
    _turn_if_crowded(axes, names)
    if 999.5 <= max((abs(float(v)) for v in values.values() if np.isfinite(v)), default=0.0) < 1e12:
        axes.yaxis.set_major_formatter("{x:,.0f}")  # as above the bars
    if limit is not None:
        axes.axhline(limit[0], color=PALETTE[1], linestyle="--", label=limit[1])
        axes.legend()
    axes.margins(y=0.12)
    return figure


def cumulative(
    probs: Sequence[float], threshold: float, labels: Sequence[str] | None = None, title: str = ""
) -> Figure:
    """Bars of probabilities by falling size, their running sum, and the line that the sum has to reach.

    Bars up to and including the one that reaches `threshold` are coloured: the nucleus of top-p. The others are grey.
    probs: any order, need not be complete; labels: one per probability, in the same order; None numbers the tokens.
    """
    heights = np.array([float(value) for value in probs])
    if heights.size == 0:
        raise ValueError("probs is empty: there is no bar to draw")
    if labels is not None and len(labels) != heights.size:
        raise ValueError(f"labels must name each probability once: {heights.size} probs, {len(labels)} labels")
    names = [str(name) for name in (labels if labels is not None else range(heights.size))]
    order = np.argsort(-heights, kind="stable")
    heights = heights[order]
    sums = np.cumsum(heights)
    figure, axes = _new_figure("token, most likely first", "probability", title)
    places = np.arange(heights.size)
    for place, height, bar in zip(places, heights, axes.bar(places, heights, color=PALETTE[0]), strict=True):
        if sums[place] - height >= threshold:  # the sum had reached the threshold before this bar
            bar.set(facecolor=MUTED, hatch="//")
    axes.plot(places, sums, color=PALETTE[1], marker="o", markersize=5, label="running sum")
    axes.axhline(threshold, color=PALETTE[6], linestyle="--", label=f"p = {threshold:g}")
    axes.set_xticks(places, [names[index] for index in order])
    axes.set_ylim(0, 1.05)
    axes.legend(loc="center right")
    return figure


def heatmap(
    matrix: Any,
    row_labels: Sequence[Any] | None = None,
    col_labels: Sequence[Any] | None = None,
    title: str = "",
    *,
    xlabel: str,
    ylabel: str,
    value_label: str = "",
    reach: float | None = None,
) -> Figure:
    """A matrix (rows, columns) as coloured cells, row 0 on top: a mask, or the keys of one head.

    Numbers use a diverging palette centred at 0, or one from 0 up where none is negative, and need `value_label` for the
    colour bar. A boolean matrix is drawn in two colours, dark for True. Labels stand at every row and column, or at
    every few where there are many.
    reach: colours span -reach to reach whatever the matrix holds, so that figures can be compared; None fits this one.
    """
    cells = np.asarray(matrix)
    if cells.ndim != 2 or cells.size == 0:
        raise ValueError(f"matrix must have shape (rows, columns) with at least one cell, got shape {cells.shape}")
    for name, labels, size in (("row_labels", row_labels, len(cells)), ("col_labels", col_labels, cells.shape[1])):
        if labels is not None and len(labels) != size:
            raise ValueError(f"{name} must hold {size} labels, got {len(labels)}")
    if cells.dtype != bool and not value_label.strip():
        raise ValueError("value_label is empty: say what the colours mean, with the unit")
    figure, axes = _new_figure(xlabel, ylabel, title)
    if cells.dtype == bool:
        from matplotlib.colors import ListedColormap

        axes.imshow(cells, cmap=ListedColormap(["#F2F2F2", PALETTE[0]]), vmin=0, vmax=1, aspect="auto")
    else:
        diverging = reach is not None or cells.min() < 0
        top = float(np.abs(cells).max() if reach is None else reach) or 1.0  # all zeros: any range will do
        palette, bottom = (DIVERGING, -top) if diverging else (SEQUENTIAL, 0.0)
        image = axes.imshow(cells, cmap=palette, vmin=bottom, vmax=top, aspect="auto")
        figure.colorbar(image, ax=axes, label=value_label)
    if row_labels is not None:
        _tick(axes.set_yticks, row_labels)
    if col_labels is not None:
        _tick(axes.set_xticks, col_labels)
        _turn_if_crowded(axes, [text.get_text() for text in axes.get_xticklabels()])
    return figure


def _short(value: float) -> str:
    """Three digits of a number, and all before the point from 1,000 on: 0.62, 1.5e-05, 3,298."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def _turn_if_crowded(axes: Axes, names: Sequence[str], room: int = 72) -> None:
    """Turn and shrink the labels below an axis that has no room for them side by side: about `room` characters."""
    longest = max(len(line) for name in names for line in name.split("\n"))
    if longest > 3 and len(names) * longest > room:  # short ones are numbers, of which a caller shows some
        axes.tick_params(axis="x", labelrotation=90, labelsize=8)


def _tick(set_ticks: Any, labels: Sequence[Any], most: int = 32) -> None:
    """Label every place, or every second, third, ... where there are more than `most`."""
    places = range(0, len(labels), -(-len(labels) // most))
    set_ticks(places, [str(labels[place]) for place in places])


def _new_figure(xlabel: str, ylabel: str, title: str) -> tuple[Figure, Axes]:
    """An empty, already closed figure with labelled axes."""
    for name, label in (("xlabel", xlabel), ("ylabel", ylabel)):
        if not label.strip():
            raise ValueError(f"{name} is empty: say what the axis shows, with the unit")
    import matplotlib.pyplot as plt

    from kvlab.described import DescribedFigure

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained", FigureClass=DescribedFigure)
    plt.close(figure)  # the caller shows it; pyplot forgets it
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
