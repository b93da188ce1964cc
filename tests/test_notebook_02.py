"""Notebook 02 as learners and graders run it: unsolved, solved, with other parameters. FAST, or it would take long."""

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

UNIT = ROOT / "grading" / "units" / "02_prefill_decode.py"
RELEASED = ROOT / "notebooks" / "02_prefill_decode.ipynb"
EXERCISES = ["latency_metrics", "roofline_seconds", "chunked_prefill", "plan_step"]


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
    assert "TTFT" in text and "ridge point" in text and "useful pos." in text


@pytest.mark.slow
def test_without_widgets_the_timeline_and_its_table_are_there(run_all: Any) -> None:
    static = [out for out in outputs(run_all, "display_data") if "image/png" in out.data and "text/html" in out.data]
    pages = [out.data["text/html"] for out in static]
    (page,) = [page for page in pages if "Who computes what" in page]
    assert "data:image/png" in page and "<table" in page and "alt=" in page


@pytest.mark.slow
def test_the_planted_mask_spoils_chunks_and_only_chunks(run_all: Any) -> None:
    texts = dict(
        ((planted.strip(), policy), text)
        for planted, policy, text in re.findall(
            r"^(nothing planted|top_left_mask) +(continuous|chunked) +(.+)$", shown(run_all), re.M
        )
    )
    assert len(texts) == 4
    assert texts["nothing planted", "continuous"] == texts["nothing planted", "chunked"]
    assert texts["top_left_mask", "continuous"] == texts["nothing planted", "continuous"]
    assert texts["top_left_mask", "chunked"] != texts["nothing planted", "chunked"]


@pytest.mark.slow
def test_static_batching_pads_and_the_others_do_not(run_all: Any) -> None:
    rows = re.findall(r"^(static|continuous|chunked) +(\d+) +(\d+) +(\d+) +(\d+)%", shown(run_all), re.M)
    counted = {policy: [int(number) for number in numbers] for policy, *numbers in rows}
    assert set(counted) == {"static", "continuous", "chunked"}
    for policy in ("continuous", "chunked"):
        assert counted[policy][2:] == [0, 100]
        assert counted["static"][1] - counted["static"][2] == counted[policy][1], "the same work, and padding on top"
        assert counted[policy][0] < counted["static"][0]


@pytest.mark.slow
def test_the_solutions_pass_strictly(tmp_path: Path) -> None:
    done = shown(execute(solved(), tmp_path, strict=True))
    assert [name for name in EXERCISES if f"{name}: right" in done] == EXERCISES


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("return logits[-1]", "return logits[0]"))
    with pytest.raises(CellExecutionError, match="last row of the last call"):
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
    starts = [text.index(f"# ## Card {card} ") for card in (5, 6, 7)] + [text.index("# ## Check what you know")]
    for card, (start, end) in enumerate(itertools.pairwise(starts), start=5):
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
