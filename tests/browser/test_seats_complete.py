"""The table of the browser tests leaves no notebook and no widget out. No browser is needed for this."""

import re

import nbformat
import pytest
from faults import FAULTS
from seats import SEATS, Seat

from helpers import ROOT
from kvgrade.units import find_units, read_unit


def test_every_unit_with_exercises_has_a_seat() -> None:
    units = [unit.stem for unit in find_units() if read_unit(unit).with_role("check")]
    assert [seat.notebook for seat in SEATS] == units


@pytest.mark.parametrize("seat", SEATS, ids=lambda seat: seat.notebook)
def test_every_widget_of_the_notebook_is_moved_and_the_exercise_is_there(seat: Seat) -> None:
    notebook = nbformat.read(ROOT / "notebooks" / seat.name, as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    shown = re.findall(r"^widgets\.[a-z_]+\(", code, re.M)
    assert sorted(shown) == sorted(widget.call for widget in seat.widgets)
    assert f'check.exercise("{seat.exercise}"' in code and seat.rule in code
    answers = ROOT / "grading" / "answers" / seat.exercise
    assert (answers / f"{seat.wrong}.py").is_file() and list(answers.glob("right_*.py"))


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(names) == len(set(names)) > 10
