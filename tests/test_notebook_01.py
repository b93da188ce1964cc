"""Notebook 01 as learners and graders run it: unsolved, solved, with other parameters. FAST, or it would take long."""

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from helpers import ROOT
from kvgrade import build
from kvgrade.units import read_unit
from kvlab import claims, glossary
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
def test_the_solutions_pass_strictly(tmp_path: Path) -> None:
    done = shown(execute(solved(), tmp_path, strict=True))
    assert [name for name in EXERCISES if f"{name}: right" in done] == EXERCISES


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("k=n_k - n_q", "k=0"))
    with pytest.raises(CellExecutionError, match="bottom right"):
        execute(spoilt, tmp_path, strict=True)


@pytest.mark.full
@pytest.mark.parametrize("name", ["primer-draft", "primer-mha"])
def test_the_other_models_run_too(name: str, tmp_path: Path) -> None:
    assert outputs(execute(released(), tmp_path, MODEL=name), "error") == []


def test_released_notebook_is_clean() -> None:
    notebook = released()
    assert notebook.nbformat_minor >= 5 and notebook.metadata.kernelspec.name == "python3"
    assert "widgets" not in notebook.metadata
    assert all(cell.outputs == [] and cell.execution_count is None for cell in notebook.cells if "outputs" in cell)
    assert "SOLUTION" not in RELEASED.read_text(encoding="utf-8")


def test_parameters_are_the_agreed_ones() -> None:
    (cell,) = (cell for cell in read_unit(UNIT).cells if "parameters" in cell.tags)
    names: dict[str, object] = {}
    exec(cell.source, names)
    wanted = {"DEVICE": "auto", "MODEL": "primer", "FAST": False, "SEED": 0}
    assert {name: names[name] for name in wanted} == wanted


def test_the_bootstrap_cell_does_nothing_here() -> None:
    cell = next(cell for cell in read_unit(UNIT).cells if "google.colab" in cell.source)
    before = list(sys.path)
    exec(cell.source, {})
    assert sys.path == before


def test_each_card_predicts_shows_asserts_and_compares_in_this_order() -> None:
    """Prediction, demonstration with an assertion, exercise, and the claims only after the learner's own result."""
    text = UNIT.read_text(encoding="utf-8")
    starts = [text.index(f"# ## Card {card} ") for card in (1, 2, 3, 4)] + [text.index("# ## Check what you know")]
    for card, (start, end) in enumerate(itertools.pairwise(starts), start=1):
        part = text[start:end]
        order = [part.index(mark) for mark in ("quiz.predict(", "assert ", " exercise=", f"claims.show(card={card})")]
        assert order == sorted(order), f"card {card}"
        assert claims.rows(card)


def test_every_figure_is_described_and_every_bold_term_of_the_glossary_is_listed() -> None:
    cells = read_unit(UNIT).cells
    for cell, after in itertools.pairwise(cells):
        if re.search(r"^(plots|widgets)\.\w+\(", cell.source, re.M):
            assert after.source.startswith("*The figure: "), cell.line
    listed = re.findall(r'"([^"]+)",\n', next(c.source for c in cells if "glossary.show" in c.source))
    for term in listed:
        assert glossary.explain(term)
    bold = {word.lower() for c in cells for word in re.findall(r"\*\*([\w ()-]+)\*\*", c.source)}
    missing = bold & {term.lower() for term in glossary.terms()} - {term.lower() for term in listed}
    assert missing == set()
