"""What only notebook 03 shows and notices; what holds for every notebook is in test_notebooks.py. FAST, or it would take long."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from helpers import ROOT
from kvgrade import build
from notebook_runs import execute, outputs, shown

UNIT = ROOT / "grading" / "units" / "03_memory.py"
RELEASED = ROOT / "notebooks" / "03_memory.ipynb"
EXERCISES = ["grouped_query_attention", "BlockAllocator", "paged_gather", "sliding_window_mask", "ring_positions"]


def released() -> Any:
    return nbformat.read(RELEASED, as_version=4)


def solved(edit: tuple[str, str] = ("", "")) -> Any:
    text = build.solved_notebook(UNIT)
    assert edit[0] in text
    return nbformat.reads(text.replace(*edit) if edit[0] else text, as_version=4)


@pytest.fixture(scope="module")
def run_all(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The released notebook, nothing solved, Run All."""
    return execute(released(), tmp_path_factory.mktemp("unsolved"))


@pytest.mark.slow
def test_run_all_unsolved_has_no_error_and_no_noise(run_all: Any) -> None:
    assert outputs(run_all, "error") == []
    assert [out.text for out in outputs(run_all, "stream") if out.name == "stderr"] == []
    text = shown(run_all)
    assert [name for name in EXERCISES if f"{name}: not attempted yet" in text] == EXERCISES
    assert "after uptraining" in text and "recall of the name" in text


@pytest.mark.slow
def test_without_widgets_each_figure_and_table_is_there(run_all: Any) -> None:
    static = [out for out in outputs(run_all, "display_data") if "image/png" in out.data and "text/html" in out.data]
    questions = [re.sub("<.*?>", "", out.data["text/html"]).split("?")[0] for out in static]
    assert (
        len(
            [q for q in questions if q.startswith(("Who holds", "How large may", "Two texts share", "Which positions"))]
        )
        == 4
    )
    assert all("data:image/png" in out.data["text/html"] and "<table" in out.data["text/html"] for out in static)


@pytest.mark.slow
def test_every_fault_of_the_break_it_table_is_noticed(run_all: Any) -> None:
    rows = re.findall(r"^(\w+) +red: (.+)\n    \w.+\n    parent: (.+)$", shown(run_all), re.M)
    assert len(rows) == 4 and [name for name, red, _ in rows if red == "none"] == ["none"]
    texts = {name: text for name, _, text in rows}
    assert texts["shared_block_freed"] == texts["none"], "the lesson: a fault that does not show in the text"


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("(age < window)", "(age <= window)"))
    with pytest.raises(CellExecutionError, match="the 2 before it"):
        execute(spoilt, tmp_path, strict=True)
