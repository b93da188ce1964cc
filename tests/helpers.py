"""Optional tools of the tests: skip with the tool's name where it is missing; fail where KVLAB_REQUIRE=all (CI)."""

import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Names that are no Python module: the commands, any of which will do, and how to get one.
PROGRAMS = {
    "bubblewrap": (["bwrap"], "Debian package bubblewrap"),
    "chromium": (["chromium", "chromium-browser", "google-chrome"], "Debian package chromium"),
    "git": (["git"], "Debian package git"),
    "make": (["make"], "Debian package make"),
}


def program(name: str) -> str | None:
    """The path of a program named in PROGRAMS, or None."""
    return next((path for command in PROGRAMS[name][0] if (path := shutil.which(command))), None)


def require(name: str) -> None:
    """Skip the running test, naming what is missing; fail it instead when KVLAB_REQUIRE=all.

    `name` is a key of PROGRAMS, or an importable Python module.
    """
    if name in PROGRAMS:
        present, hint = program(name) is not None, PROGRAMS[name][1]
    else:
        present, hint = importlib.util.find_spec(name) is not None, f"Python module {name}"
    if present:
        return
    message = f"{name} is missing ({hint})"
    if os.environ.get("KVLAB_REQUIRE") == "all":
        pytest.fail(f"{message}, and KVLAB_REQUIRE=all asks for everything")
    pytest.skip(message)


def code_cell(cell_id: str, source: str, **metadata: Any) -> dict[str, Any]:
    """A code cell of nbformat 4.5 as a dict."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": cell_id,
        "metadata": metadata,
        "outputs": [],
        "source": source,
    }


def write_notebook(path: Path, cells: list[dict[str, Any]]) -> Path:
    """Write a small notebook for the kernel python3."""
    spec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def words_outside(figure: Any) -> list[str]:
    """Titles and axis labels of a matplotlib figure that its edge cuts."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    texts = [text for axes in figure.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label)]
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts]
    return [
        words for words, box in boxes if box.x0 < -0.5 or box.y0 < -0.5 or box.x1 > width + 0.5 or box.y1 > height + 0.5
    ]
