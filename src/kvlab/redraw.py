"""Figures drawn one after the other, each for its PNG, without measuring again what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg

from kvlab.layout import RememberedLayout
from kvlab.picture import printed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Redraw:
    """Draws a widget's figures. What stays: the room for the labels, and the sizes of texts and formulas."""

    def __init__(self) -> None:
        self._layout = RememberedLayout()
        self._renderer: RendererAgg | None = None

    def png(self, figure: Figure) -> bytes:
        """The figure as a PNG."""
        figure.set_layout_engine(self._layout)
        canvas = _Canvas(figure, self._renderer)
        picture = printed(canvas)
        self._renderer = canvas.get_renderer()
        return picture


class _Canvas(FigureCanvasAgg):
    """A canvas that goes on with another one's renderer, which is where matplotlib keeps the sizes of texts."""

    def __init__(self, figure: Figure, renderer: RendererAgg | None) -> None:
        super().__init__(figure)
        self._kept = renderer

    def get_renderer(self) -> RendererAgg:
        width, height = self.get_width_height(physical=True)
        kept = self._kept
        if kept is None or (kept.width, kept.height, kept.dpi) != (width, height, self.figure.dpi):
            self._kept = kept = RendererAgg(width, height, self.figure.dpi)
        return kept
