"""The figures' data, labels and colours; never their pixels."""

import io
import itertools
import os
import subprocess
import sys

import matplotlib
import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from kvlab import plots


def test_lines_draw_the_series_on_labelled_axes() -> None:
    figure = plots.lines(
        {"naive": ([1, 2, 4], [1, 4, 16], [0.5, 3, 14], [2, 5, 20]), "cached": ([1, 2, 4], [1, 2, 4])},
        "new tokens",
        "time (ms)",
        "Two loops",
        logx=True,
        logy=True,
    )
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("new tokens", "time (ms)", "Two loops")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4"]
    naive, cached = axes.get_lines()
    assert list(naive.get_ydata()) == [1, 4, 16] and list(cached.get_xdata()) == [1, 2, 4]
    assert naive.get_color() != cached.get_color() and naive.get_marker() != cached.get_marker()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["naive", "cached"]
    assert len(axes.collections) == 1  # the shaded range of the first
    low, high = axes.collections[0].get_datalim(axes.transData).intervaly
    assert (low, high) == (0.5, 20)


def test_a_figure_describes_itself_to_screen_readers() -> None:
    lines = plots.lines(
        {"naive": ([1, 2], [1, 4]), "cached": ([1, 2], [1, 2])}, "new tokens", "time (ms)", 'Two "loops"'
    )
    words = 'Two "loops". Vertical axis: time (ms). Horizontal axis: new tokens. Shown: naive, cached.'
    assert lines.describe() == words
    page = lines._repr_html_()
    assert page.startswith('<img alt="Two &quot;loops&quot;. Vertical axis') and 'width="700" height="360"' in page
    cells = plots.heatmap([[0.1, 0.2]], xlabel="head", ylabel="token", value_label="weight")
    assert cells.describe() == "Vertical axis: token. Horizontal axis: head. Colours: weight."


def test_linear_axes_start_at_zero_and_one_line_needs_no_legend() -> None:
    axes = plots.lines({"a": ([1, 2], [90, 100])}, "x", "y").axes[0]
    assert axes.get_ylim()[0] == 0 and axes.get_legend() is None


def test_bars_draw_heights_numbers_and_muted_ones() -> None:
    figure = plots.bars({"cat": 0.62, "dog": 0.18}, "token", "probability", muted=["dog"], limit=(0.5, "half"))
    axes = figure.axes[0]
    cat, dog = axes.patches
    assert (cat.get_height(), dog.get_height()) == (0.62, 0.18)
    assert to_hex(dog.get_facecolor()).upper() == plots.MUTED and dog.get_hatch() and not cat.get_hatch()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["cat", "dog"]
    assert {"0.62", "0.18"} <= {text.get_text() for text in axes.texts}
    assert set(axes.get_lines()[0].get_ydata()) == {0.5}


@pytest.mark.parametrize(
    ("height", "written"), [(3298.4, "3,298"), (999.4, "999"), (999.6, "1,000"), (16.06, "16.1"), (1.53e-5, "1.53e-05")]
)
def test_bars_write_large_numbers_with_thousands(height: float, written: str) -> None:
    assert [text.get_text() for text in plots.bars({"a": height}, "x", "y").axes[0].texts] == [written]


@pytest.mark.parametrize(("threshold", "coloured"), [(0.9, 4), (0.5, 1), (0.62, 1), (1.0, 5)])
def test_cumulative_colours_the_bars_up_to_the_one_that_crosses(threshold: float, coloured: int) -> None:
    axes = plots.cumulative([0.09, 0.62, 0.18, 0.04, 0.02], threshold, ["c", "a", "b", "d", "e"]).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c", "d", "e"]
    assert [bar.get_height() for bar in axes.patches] == [0.62, 0.18, 0.09, 0.04, 0.02]
    assert [not bar.get_hatch() for bar in axes.patches] == [True] * coloured + [False] * (5 - coloured)
    running_sum, line = axes.get_lines()
    np.testing.assert_allclose(running_sum.get_ydata(), [0.62, 0.80, 0.89, 0.93, 0.95])
    assert set(line.get_ydata()) == {threshold}


def test_cumulative_takes_a_tensor_and_equal_labels() -> None:
    import torch

    axes = plots.cumulative(torch.tensor([0.5, 0.3, 0.2]), 0.7, labels=["a", "a", "b"]).axes[0]
    assert len(axes.patches) == 3


def test_heatmap_is_centred_at_zero() -> None:
    figure = plots.heatmap(
        [[1.0, 3.0, 0.5], [0.0, -2.0, 1.0]],
        ["r0", "r1"],
        ["c0", "c1", "c2"],
        "Keys",
        xlabel="number in the head",
        ylabel="position",
        value_label="key (no unit)",
    )
    axes, bar = figure.axes
    image = axes.get_images()[0]
    assert image.get_clim() == (-3.0, 3.0)
    np.testing.assert_array_equal(image.get_array(), [[1.0, 3.0, 0.5], [0.0, -2.0, 1.0]])
    assert bar.get_ylabel() == "key (no unit)"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["r0", "r1"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # row 0 on top


def test_heatmap_without_negative_numbers_starts_at_zero() -> None:
    image = plots.heatmap([[0.2, 0.8]], xlabel="x", ylabel="y", value_label="v").axes[0].get_images()[0]
    assert image.get_clim() == (0.0, 0.8) and image.get_cmap().name == plots.SEQUENTIAL


def test_heatmaps_with_one_reach_can_be_compared() -> None:
    for matrix in ([[0.2, 0.8]], [[-4.0, 1.0]]):
        figure = plots.heatmap(matrix, xlabel="x", ylabel="y", value_label="v", reach=5.0)
        image = figure.axes[0].get_images()[0]
        assert image.get_clim() == (-5.0, 5.0) and image.get_cmap().name == plots.DIVERGING


def test_heatmap_of_a_mask_has_two_colours_and_no_bar() -> None:
    figure = plots.heatmap(np.tri(3, dtype=bool), xlabel="key position", ylabel="query position")
    assert len(figure.axes) == 1
    image = figure.axes[0].get_images()[0]
    assert image.get_clim() == (0, 1) and image.get_cmap().N == 2


def test_heatmap_of_zeros_and_many_labels() -> None:
    labels = list(range(100))
    figure = plots.heatmap(np.zeros((100, 2)), labels, xlabel="x", ylabel="y", value_label="v")
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(shown) <= 32 and shown[:2] == ["0", "4"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.lines({"a": ([1], [1])}, "", "y"), "xlabel is empty"),
        (lambda: plots.lines({"a": ([1], [1])}, "x", "  "), "ylabel is empty"),
        (lambda: plots.lines({}, "x", "y"), "series is empty"),
        (lambda: plots.lines({"a": ([1, 2], [1])}, "x", "y"), "all of one length"),
        (lambda: plots.lines({"a": ([], [])}, "x", "y"), "all of one length"),
        (lambda: plots.lines({"a": ([1], [1], [1])}, "x", "y"), "must be"),
        (lambda: plots.bars({}, "x", "y"), "values is empty"),
        (lambda: plots.bars({"a": 1}, "x", ""), "ylabel is empty"),
        (lambda: plots.bars({"a": 1}, "x", "y", muted=["b"]), "muted names no bar: b"),
        (lambda: plots.cumulative([], 0.9), "probs is empty"),
        (lambda: plots.cumulative([0.5, 0.5], 0.9, ["a"]), "2 probs, 1 labels"),
        (lambda: plots.heatmap([1, 2], xlabel="x", ylabel="y", value_label="v"), "shape"),
        (lambda: plots.heatmap([[]], xlabel="x", ylabel="y", value_label="v"), "at least one cell"),
        (lambda: plots.heatmap([[1.0]], xlabel="x", ylabel="y"), "value_label is empty"),
        (lambda: plots.heatmap([[1.0]], xlabel="x", ylabel="", value_label="v"), "ylabel is empty"),
        (lambda: plots.heatmap([[1.0]], ["a", "b"], xlabel="x", ylabel="y", value_label="v"), "row_labels must hold 1"),
    ],
)
def test_what_cannot_be_read_is_refused_and_leaves_no_figure(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
    assert plt.get_fignums() == []


def test_figures_are_closed_but_can_still_be_saved() -> None:
    figure = plots.bars({"a": 1.0}, "x", "y (s)")
    assert plt.get_fignums() == []
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    assert b"<svg" in buffer.getvalue()


def test_a_notebook_shows_a_figure_exactly_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a real kernel with the inline backend: one picture from the last line, none from a cell that keeps it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.delenv("MPLBACKEND", raising=False)  # a kernel sets its own
    cells = [
        "from kvlab import plots",
        "figure = plots.bars({'a': 1.0}, 'x', 'y (s)')",
        "figure",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    pictures = [[output for output in cell.outputs if "image/png" in output.get("data", {})] for cell in notebook.cells]
    assert [len(shown) for shown in pictures] == [0, 0, 1]


def test_importing_plots_imports_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    code = "import sys, kvlab.plots; print('matplotlib' in sys.modules, 'torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("values", [{"a": float("inf"), "b": 2.0}, {"a": float("nan"), "b": 2.0}])
def test_bars_without_a_height_leave_the_ticks_alone(values: dict[str, float]) -> None:
    figure = plots.bars(values, "name", "height")
    FigureCanvasAgg(figure).draw()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(set(labels)) == len(labels)


TOKENIZERS = ("the course's primer", "SmolLM2", "cl100k_base", "o200k_base", "Llama 3", "DeepSeek V3", "Mistral Tekken")


@pytest.mark.parametrize("names", [TOKENIZERS[:2], TOKENIZERS, tuple(f"{n}. ' window'" for n in range(1, 11))])
def test_names_below_bars_do_not_touch(names: tuple[str, ...]) -> None:
    figure = plots.bars(dict.fromkeys(names, 1.0), "name", "height")
    assert gaps_below(figure) >= 2


def test_names_below_a_heatmap_do_not_touch() -> None:
    words = [f" word{n}" for n in range(13)]
    figure = plots.heatmap(np.eye(13), words, words, xlabel="key", ylabel="query", value_label="weight")
    assert gaps_below(figure) >= 2


def gaps_below(figure: Figure) -> float:
    """The smallest distance between two neighbouring labels below the first axes, in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    labels = [t for t in figure.axes[0].get_xticklabels() if t.get_text()]
    boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels]
    return min(right.x0 - left.x1 for left, right in itertools.pairwise(boxes))
