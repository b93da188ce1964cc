"""What holds for every notebook, as learners and graders run it. FAST, or it would take long."""

import itertools
import re
import symtable
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from helpers import ROOT
from kvgrade import build
from kvgrade.units import find_units, read_unit
from kvlab import claims, glossary, progress
from notebook_runs import execute, outputs, shown

UNITS = find_units()
each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
each_assignment = pytest.mark.parametrize(
    "unit", [path for path in UNITS if read_unit(path).graded], ids=lambda path: path.stem
)


def release(unit: Path) -> Path:
    return ROOT / "notebooks" / f"{unit.stem}.ipynb"


def released(unit: Path) -> Any:
    return nbformat.read(release(unit), as_version=4)


@each_assignment
@pytest.mark.slow
def test_the_solutions_pass_strictly(unit: Path, tmp_path: Path) -> None:
    solved = nbformat.reads(build.solved_notebook(unit), as_version=4)
    done = execute(solved, tmp_path, strict=True)
    exercises = [cell.name for cell in read_unit(unit).with_role("check")]
    assert exercises and [name for name in exercises if f"{name}: right" in shown(done)] == exercises
    nbformat.write(done, tmp_path / release(unit).name)
    (saved,) = (part for part in progress.read(tmp_path) if part.unit.name == unit.stem)
    assert saved.names(progress.Standing.SOLVED) == exercises, "the saved file tells the same without a run"


@each_unit
@pytest.mark.full
@pytest.mark.parametrize("name", ["primer-draft", "primer-mha"])
def test_the_other_models_run_too(unit: Path, name: str, tmp_path: Path) -> None:
    assert outputs(execute(released(unit), tmp_path, MODEL=name), "error") == []


@each_unit
@pytest.mark.full
def test_another_seed_runs_too(unit: Path, tmp_path: Path) -> None:
    assert outputs(execute(released(unit), tmp_path, SEED=3), "error") == []


@each_unit
def test_released_notebook_is_clean(unit: Path) -> None:
    notebook = released(unit)
    assert notebook.nbformat_minor >= 5 and notebook.metadata.kernelspec.name == "python3"
    assert "widgets" not in notebook.metadata
    assert all(cell.outputs == [] and cell.execution_count is None for cell in notebook.cells if "outputs" in cell)
    assert "SOLUTION" not in release(unit).read_text(encoding="utf-8")


@each_unit
def test_parameters_are_the_agreed_ones(unit: Path) -> None:
    (cell,) = (cell for cell in read_unit(unit).cells if "parameters" in cell.tags)
    names: dict[str, object] = {}
    exec(cell.source, names)
    wanted = {"DEVICE": "auto", "MODEL": "primer", "FAST": False, "SEED": 0}
    assert {name: names[name] for name in wanted} == wanted


def bound(source: str) -> set[str]:
    """Names that the top level of a cell assigns, imports or defines."""
    found = symtable.symtable(source, "cell", "exec").get_symbols()
    return {symbol.get_name() for symbol in found if symbol.is_assigned() or symbol.is_imported()}


@each_unit
def test_no_cell_changes_what_the_first_cells_set_up(unit: Path) -> None:
    """Cells may run in any order, and twice: a name of the set-up that another cell binds means something else then."""
    cells = [cell for cell in read_unit(unit).cells if cell.cell_type == "code" and "{{colab" not in cell.source]
    at = next(number for number, cell in enumerate(cells) if "parameters" in cell.tags)
    first = bound(cells[at].source) | bound(cells[at + 1].source)
    assert len(first) > 8
    others = [*cells[:at], *cells[at + 2 :]]
    changed = {cell.line: sorted(first & bound(cell.source)) for cell in others}
    assert {line: names for line, names in changed.items() if names} == {}


@each_assignment
def test_a_seed_that_cannot_be_used_is_a_sentence(unit: Path) -> None:
    """Where a unit has a SEED that it uses, its set-up looks at it first."""
    source = "\n".join(cell.source for cell in read_unit(unit).cells if cell.cell_type == "code")
    uses = [match.start() for match in re.finditer(r"\bSEED\b(?! =)", source)]
    assert uses[0] == source.index("validate.seed(SEED)") + len("validate.seed(")


@each_unit
def test_the_bootstrap_cell_does_nothing_here(unit: Path) -> None:
    cell = next(cell for cell in released(unit).cells if "google.colab" in cell.source)
    before = list(sys.path)
    exec(cell.source, {})
    assert sys.path == before


@each_assignment
def test_each_card_predicts_shows_asserts_and_compares_in_this_order(unit: Path) -> None:
    """Prediction, demonstration with an assertion, exercise, and the claims only after the learner's own result."""
    text = unit.read_text(encoding="utf-8")
    found = list(re.finditer(r"^# ## Card (\d+) ", text, re.M))
    starts = [match.start() for match in found] + [text.index("# ## Check what you know")]
    assert found
    for match, (start, end) in zip(found, itertools.pairwise(starts), strict=True):
        part, card = text[start:end], int(match[1])
        order = [part.index(mark) for mark in ("quiz.predict(", "assert ", " exercise=", f"claims.show(card={card})")]
        assert order == sorted(order), f"card {card}"
        assert claims.rows(card)


@each_unit
def test_every_figure_is_described_and_every_bold_term_of_the_glossary_is_listed(unit: Path) -> None:
    cells = read_unit(unit).cells
    for cell, after in itertools.pairwise(cells):
        if re.search(r"^(plots|widgets)\.\w+\(", cell.source, re.M):
            assert after.source.startswith("*The figure: "), cell.line
    listed = re.findall(r'"([^"]+)",\n', next(c.source for c in cells if "glossary.show" in c.source))
    for term in listed:
        assert glossary.explain(term)
    bold = {word.lower() for c in cells for word in re.findall(r"\*\*([\w ()-]+)\*\*", c.source)}
    missing = bold & {term.lower() for term in glossary.terms()} - {term.lower() for term in listed}
    assert missing == set()
