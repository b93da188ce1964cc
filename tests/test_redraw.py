"""A widget's figures are those that matplotlib draws without what the widget keeps from one to the next."""

import io
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image

from all_widgets import made
from kvlab import layout, plots
from kvlab.picture import png
from kvlab.redraw import Redraw

SHOWN = ("bits", "cache_stepper", "draft_length", "kv_calculator", "page_waste", "paged_pool", "trace_stepper", "tiles")


def pixels(picture: bytes) -> np.ndarray:
    """(rows, columns, 3)"""
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def settings(control: Any) -> list[Any]:
    """Some values around the present one, which comes last again."""
    if hasattr(control, "options"):
        return [*[item[1] if isinstance(item, tuple) else item for item in control.options][:3], control.value]
    if not hasattr(control, "step"):
        return []
    near = [control.value + n * (control.step or 1) for n in (1, 2, 5, -1, -3)]
    return [value for value in near if control.min <= value <= control.max] + [control.value]


def figures(heights: list[float]) -> Figure:
    return plots.bars({f"bar {i}": height for i, height in enumerate(heights)}, "bar", "height (m)", "a title")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Figure]]:
    """The figures for which the constrained layout was computed."""
    seen: list[Figure] = []
    execute = ConstrainedLayoutEngine.execute

    def noted(self: ConstrainedLayoutEngine, fig: Figure) -> None:
        seen.append(fig)
        execute(self, fig)

    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", noted)
    yield seen


@pytest.mark.parametrize("name", SHOWN)
def test_every_setting_looks_as_it_does_when_drawn_alone(name: str) -> None:
    with ExitStack() as running:
        ((_, widget),) = made(running, name)
        compared = 0
        for control in widget.controls.values():
            for value in settings(control):
                control.value = value
                if widget.message:
                    continue
                alone = png(widget._compute(**{key: part.value for key, part in widget.controls.items()}).figure)
                assert np.array_equal(pixels(widget.picture), pixels(alone)), (name, value)
                compared += 1
        assert compared > 3


def test_the_same_labels_are_laid_out_once_and_wider_ones_again(runs: list[Figure]) -> None:
    redraw = Redraw()
    for heights in ([1.5, 2.1], [1.4, 2.2], [1.6, 2.3]):
        redraw.png(figures(heights))
    assert len(runs) == 1
    redraw.png(figures([123456.0, 200000.0]))
    assert len(runs) == 2


def test_another_size_is_laid_out_and_drawn_anew(runs: list[Figure]) -> None:
    redraw = Redraw()
    redraw.png(figures([1.0]))
    wide = figures([1.0])
    wide.set_size_inches(9, 4)
    assert pixels(redraw.png(wide)).shape == (400, 900, 3)
    assert len(runs) == 2


def test_the_title_keeps_clear_of_the_power_of_ten_above_the_axis() -> None:
    redraw, pictures = Redraw(), []
    for _ in range(2):
        figure = plots.lines(
            {"a": ([0, 1], [0, 2e9])}, "x", "y", "a title that is so long that it begins at the axis " * 2
        )
        pictures.append(redraw.png(figure))
    assert np.array_equal(pixels(pictures[0]), pixels(pictures[1]))


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, runs: list[Figure]) -> None:
    monkeypatch.setattr(layout, "MOST", 2)
    redraw = Redraw()
    for label in ("x", "xx", "xxx", "x"):  # the third one clears what is remembered
        redraw.png(plots.lines({"a": ([0, 1], [0, 1])}, label, "y"))
    assert len(runs) == 4
