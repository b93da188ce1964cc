"""Where nothing draws widgets (VS Code without its extension, a saved page, papermill) figure and table stay behind.

Every widget is shown by a cell in a real kernel that no front end is connected to, with ipywidgets and without it.
"""

import ast
import re
import sys
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from all_widgets import KINDS, makers
from helpers import ROOT

VIEW = "application/vnd.jupyter.widget-view+json"
START = "import sys\nfrom contextlib import ExitStack\nfrom all_widgets import made\nrunning = ExitStack()"
END = "running.close()"


def show(name: str) -> str:
    return f"for _ in made(running, {name!r}):\n    pass"


@pytest.fixture(scope="module", params=["ipywidgets", "no ipywidgets"])
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each widget leaves below its cell, by name; under "view" whether it offers a live widget too."""
    start = START if request.param == "ipywidgets" else f"{START}\nsys.modules['ipywidgets'] = None"
    sources = [start, *map(show, makers()), END]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT / 'tests'}:" + ":".join(filter(None, sys.path)))
        folder = tmp_path_factory.mktemp("static")
        NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}}).execute()
    found: dict[str, Any] = {"live": request.param == "ipywidgets"}
    for name, cell in zip(makers(), notebook.cells[1:], strict=False):
        found[name] = [out for out in cell.outputs if out.output_type == "display_data"]
        assert [out for out in cell.outputs if out.output_type not in ("display_data", "stream")] == [], name
    return found


@pytest.mark.slow
def test_each_widget_leaves_a_figure_and_a_table(shown: dict[str, Any]) -> None:
    for name in makers():
        (output,) = (out for out in shown[name] if "text/html" in out.data)
        page, text = output.data["text/html"], output.data["text/plain"]
        assert "?" in page.split("</b>")[0], f"{name}: no question on top"
        picture = re.search(r'<img(?=[^>]* alt="[^"]{20,}")[^>]* src="data:image/png;base64,', page)
        picture = picture or re.search(r"<svg[ >]", page)
        assert picture, f"{name}: no figure with a description"
        assert re.search(r"<table.*<td", page, re.S), f"{name}: no table"
        assert not re.search(r"<script|https?://(?!www\.w3\.org/)", page), f"{name}: needs a script or the network"
        rows = re.search(r"^[-+]{10,}\n(.+)$", text, re.M)
        assert rows and "?" in text.splitlines()[0], f"{name}: no question and table as text"


@pytest.mark.slow
def test_a_live_widget_is_offered_only_where_ipywidgets_is(shown: dict[str, Any]) -> None:
    for name in makers():
        assert any(VIEW in out.data for out in shown[name]) == shown["live"], name


def test_every_widget_of_the_package_is_covered() -> None:
    found = set(makers())
    assert {"cache_stepper", "sampling_lab", "capacity_planner"} <= found
    for path in (ROOT / "src" / "kvlab" / "widgets").glob("*.py"):
        functions = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
        shows = {node.name for node in functions if node.returns and ast.unparse(node.returns) in KINDS}
        assert shows <= found, f"{path.name}: a widget that is not in kvlab.widgets.__all__"
