"""What only notebook 05 shows and notices; what holds for every notebook is in test_notebooks.py. FAST, or it would take long."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from helpers import ROOT
from kvgrade import build
from kvlab import sampling, widgets
from notebook_runs import execute, outputs, shown

UNIT = ROOT / "grading" / "units" / "05_sampling.py"
RELEASED = ROOT / "notebooks" / "05_sampling.ipynb"
EXERCISES = [
    "top_k_filter",
    "top_p_filter",
    "min_p_filter",
    "temperature_probs",
    "beam_search",
    "apply_repetition_penalty",
    "apply_logit_bias",
]


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
    assert "distinct-4" in text and "with the crossing token dropped: chi-square" in text


@pytest.mark.slow
def test_without_widgets_bars_trees_and_tables_are_there(run_all: Any) -> None:
    static = [out.data for out in outputs(run_all, "display_data") if "text/html" in out.data]
    (lab,) = [data for data in static if "Which tokens can come next" in data["text/html"]]
    assert "<svg" in lab["text/html"] and "cut by top_p" in lab["text/html"]
    assert "What each stage did" in lab["text/plain"]
    for question in ("A stage of the pipeline has a mistake", "Which texts does beam search keep"):
        (data,) = [data for data in static if question in data["text/html"]]
        assert "image/png" in data and "<table" in data["text/html"]


@pytest.mark.slow
def test_every_fault_of_the_break_it_table_is_noticed(run_all: Any) -> None:
    rows = re.findall(r"^(\w+) +red: (.+?)   largest", shown(run_all), re.M)
    assert [name for name, _ in rows] == list(widgets.SAMPLING_FAULTS)
    assert [name for name, red in rows if red == "none"] == ["none"] and len({red for _, red in rows}) == len(rows)


@pytest.mark.slow
def test_the_notebook_names_the_order_of_each_library(run_all: Any) -> None:
    text = shown(run_all)
    for library, order in sampling.ORDERS.items():
        assert re.search(rf"^{re.escape(library)} +{' -> '.join(order)} +\d+ tokens left$", text, re.M)


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("logits >= smallest_kept", "logits > smallest_kept"))
    with pytest.raises(CellExecutionError, match="the two largest stay"):
        execute(spoilt, tmp_path, strict=True)
