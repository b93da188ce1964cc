"""What only notebook 07 shows and notices; what holds for every notebook is in test_notebooks.py. FAST, or it would take long."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from helpers import ROOT
from kvgrade import build
from kvlab.embeddings import recorded
from kvlab.embeddings.methods import METHODS
from notebook_runs import execute, outputs, shown
from real_models import require_model

UNIT = ROOT / "grading" / "units" / "07_embeddings.py"
RELEASED = ROOT / "notebooks" / "07_embeddings.ipynb"
EXERCISES = ["mean_pool", "cosine_top_k", "last_token_pool", "recall_at_k"]


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
    assert "nearest has the same sense" in text and "cosine of twins" in text


@pytest.mark.slow
def test_without_widgets_each_figure_and_table_is_there(run_all: Any) -> None:
    static = [out for out in outputs(run_all, "display_data") if "image/png" in out.data and "text/html" in out.data]
    questions = [re.sub("<.*?>", "", out.data["text/html"]).split("?")[0] for out in static]
    assert len([q for q in questions if q.startswith(("Do hidden states of one word", "A search by vectors"))]) == 2
    assert all("data:image/png" in out.data["text/html"] and "<table" in out.data["text/html"] for out in static)


@pytest.mark.slow
def test_every_fault_of_the_break_it_table_is_noticed(run_all: Any) -> None:
    rows = re.findall(r"^(\w+) +red: (.+)\n +first: (.+)$", shown(run_all), re.M)
    assert len(rows) == 4 and [name for name, red, _ in rows if red == "none"] == ["none"]
    first = {name: text for name, _, text in rows}
    assert first["dot_for_cosine"] == first["none"], "the lesson: a fault that the list of results does not show"


@pytest.mark.slow
def test_fast_and_without_models_the_table_is_the_record(run_all: Any) -> None:
    """FAST runs nothing anew, so the figures are those of data/embeddings whatever is installed."""
    text = shown(run_all)
    for result in recorded.results():
        line = next(line for line in text.splitlines() if line.startswith(METHODS[result.method].title + " "))
        assert f"{result.recall(1):.3f}" in line and f"{result.recall(5):.3f}" in line
        assert f"recorded {recorded.about()['made']}" in line
        ended = recorded.with_equal_endings(result.method)
        figures = " +".join(
            f"{value:.3f}" for value in (result.recall(1), result.recall(5), ended.recall(1), ended.recall(5))
        )
        assert re.search(rf"^  {METHODS[result.method].title} +{figures}$", text, re.M), "both endings are shown"


@pytest.mark.slow
def test_what_is_installed_runs_when_it_is_asked_for(tmp_path: Path) -> None:
    require_model("minilm")
    text = shown(execute(released(), tmp_path, FAST=False))
    assert "MiniLM: a text encoder: is here; 3 vectors computed anew" in text


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("/ len(set(wanted)) for found", "/ k for found"))
    with pytest.raises(CellExecutionError, match="divide by the number of relevant ids"):
        execute(spoilt, tmp_path, strict=True)
