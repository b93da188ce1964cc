"""Where the axes of a figure stand: computed once, and used again for figures in which nothing takes more room.

matplotlib's constrained layout measures every label several times, which is a third of the time of a small figure. The
figures that a widget draws one after the other mostly differ in their data alone.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from matplotlib.layout_engine import ConstrainedLayoutEngine

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

SAME_WIDTH = str.maketrans("123456789", "000000000")  # in matplotlib's own font, as in most, digits are equally wide
NAME = re.compile(r"[^\W\d_]{2}")  # two letters
MOST = 200  # figures of one widget that are remembered; then it begins anew


class RememberedLayout(ConstrainedLayoutEngine):
    """Constrained layout that runs once for all figures in which the same labels take room.

    Give the same engine to one figure after the other (`figure.set_layout_engine`).
    """

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[Hashable, list[tuple[Any, Any, Any]]] = {}

    def execute(self, fig: Figure) -> None:
        """Move the axes of `fig` to their places."""
        key = _room(fig)
        if key in self._places:
            for axes, (place, anchor, aspect) in zip(fig.axes, self._places[key], strict=True):
                axes.set_position(place)
                axes.set_in_layout(True)  # which set_position takes away
                axes.set_anchor(anchor)
                axes.set_box_aspect(aspect)
                if axes.get_title() and not axes.yaxis.get_major_formatter().get_offset():
                    # Matplotlib measures the y axis once more to keep the title away from a "1e6" above that axis.
                    axes.set_title(axes.get_title(), y=1.0, fontsize=axes.title.get_fontsize())
            return
        super().execute(fig)
        if len(self._places) == MOST:
            self._places.clear()
        # What is remembered must not follow the figure's later changes: positions are copied ("frozen").
        self._places[key] = [
            (axes.get_position(original=True).frozen(), axes.get_anchor(), axes.get_box_aspect()) for axes in fig.axes
        ]


def _room(figure: Figure) -> Hashable:
    """All that decides how much room is needed around the axes of a figure, as a key of a dictionary."""
    return (*figure.get_size_inches(), figure.dpi, *map(_axes_room, figure.axes))


def _axes_room(axes: Axes) -> Hashable:
    """The width of a title is left out, as constrained layout does."""
    title = (bool(axes.title.get_text()), axes.title.get_text().count("\n"), axes.title.get_fontsize())
    labels = (_text_room(axes.xaxis.label), _text_room(axes.yaxis.label), frozenset(map(_text_room, axes.texts)))
    return (axes.get_label(), title, labels, _below(axes.xaxis), _beside(axes.yaxis))


def _text_room(text: Text) -> Hashable:
    return (text.get_text().translate(SAME_WIDTH), text.get_fontsize())


def _below(axis: Axis) -> Hashable:
    """Labels below an axis take the height of one; the first and the last can stick out to the sides."""
    labels = _tick_labels(axis)
    if not labels:
        return None
    return (
        max(label.count("\n") for _, label in labels),
        any("$" in label for _, label in labels),  # a formula is taller
        frozenset(label.translate(SAME_WIDTH) for _, label in labels if NAME.search(label)),  # names may be turned
        *(_at_end(share, label, 0.08) for share, label in (min(labels), max(labels))),
    )


def _beside(axis: Axis) -> Hashable:
    """Labels beside an axis take the width of the widest, which is no label half as long as the longest."""
    labels = _tick_labels(axis)
    if not labels:
        return None
    longest = max(len(label) for _, label in labels)
    wide = frozenset(label.translate(SAME_WIDTH) for _, label in labels if 2 * len(label) >= longest)
    return (wide, *(_at_end(round(share, 2), "", 0.03) for share, _ in (min(labels), max(labels))))


def _at_end(share: float, label: str, near: float) -> Hashable:
    """A label and its place, in thousandths of the axis; where it is not `near` an end, neither takes room there."""
    return (round(share, 3), label.translate(SAME_WIDTH)) if min(share, 1 - share) < near else None


def _tick_labels(axis: Axis) -> list[tuple[float, str]]:
    """The labels in sight, each with its place: 0 is one end of the axis, 1 the other."""
    scale = axis.get_transform()
    low, high = scale.transform(axis.get_view_interval())
    labels = []
    for places, form in (
        (axis.get_majorticklocs(), axis.get_major_formatter()),
        (axis.get_minorticklocs(), axis.get_minor_formatter()),
    ):
        for share, label in zip(
            (scale.transform(places) - low) / (high - low), form.format_ticks(list(places)), strict=True
        ):
            if label and -0.001 <= share <= 1.001:
                labels.append((float(share), label))
    return labels
