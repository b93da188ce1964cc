"""What only notebook 01 shows and notices; what holds for every notebook is in test_notebooks.py. FAST, or it would take long."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from helpers import ROOT
from kvgrade import build
from notebook_runs import execute, outputs, shown

UNIT = ROOT / "grading" / "units" / "01_kv_cache.py"
RELEASED = ROOT / "notebooks" / "01_kv_cache.ipynb"
EXERCISES = ["positions_processed", "KVCache", "cached_attention", "kv_cache_bytes"]


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
    assert "naive" in text and "times fewer" in text


@pytest.mark.slow
def test_without_widgets_each_figure_and_table_is_there(run_all: Any) -> None:
    static = [out for out in outputs(run_all, "display_data") if "image/png" in out.data and "text/html" in out.data]
    questions = [re.sub("<.*?>", "", out.data["text/html"]).split("?")[0] for out in static]
    assert len([q for q in questions if q.startswith(("What does the KV", "How large is", "A cached loop"))]) == 3
    assert all("data:image/png" in out.data["text/html"] and "<table" in out.data["text/html"] for out in static)


@pytest.mark.slow
def test_every_fault_of_the_break_it_table_is_noticed(run_all: Any) -> None:
    found = r"^(\w+) +(text unchanged|text changes at new token \d+) +red: (.+)\n    \w.+$"
    rows = re.findall(found, shown(run_all), re.M)
    assert len(rows) == 6 and [name for name, _, red in rows if red == "none"] == ["none"]
    assert sum(text == "text unchanged" for _, text, _ in rows) >= 2, "the lesson: some faults do not show in the text"


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("k=n_k - n_q", "k=0"))
    with pytest.raises(CellExecutionError, match="bottom right"):
        execute(spoilt, tmp_path, strict=True)
