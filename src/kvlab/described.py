"""A matplotlib figure that a notebook shows with a description: JupyterLab gives a bare PNG no alternative text."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from kvlab.picture import image_html, png


class DescribedFigure(Figure):
    """A figure that also has an HTML form: the same picture, and what it shows in words."""

    def describe(self) -> str:
        """The title, the axes and the names in the legend of each plot. A colour bar is described by its label."""
        return " ".join(part for axes in self.axes if (part := _describe(axes)))

    def _repr_html_(self) -> str:
        return image_html(png(self), self.describe())


def _describe(axes: Any) -> str:
    title, x, y = axes.get_title(), axes.get_xlabel(), axes.get_ylabel()
    if axes.get_label() == "<colorbar>":
        return f"Colours: {y or x}."
    parts = [f"{title}." if title else "", f"Vertical axis: {y}. Horizontal axis: {x}."]
    legend = axes.get_legend()
    if legend is not None:
        parts.append(f"Shown: {', '.join(text.get_text() for text in legend.get_texts())}.")
    return " ".join(filter(None, parts)).replace(r"\$", "$").replace("\n", " ")
