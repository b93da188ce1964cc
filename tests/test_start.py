"""The start page, a unit without exercises: built and run like the others, but no assignment; and what it prints."""

import json
import re
from pathlib import Path

import nbformat
import pytest

from helpers import ROOT
from kvgrade import build, prove
from kvgrade.units import find_units, read_unit
from kvlab import course
from kvlab.cli.jupyter import server_command
from notebook_runs import execute, outputs, shown
from tiny_course import course as tiny
from tiny_course import quiet

PATH = ROOT / "notebooks" / "00_start.ipynb"
PLAIN = '# %% [markdown]\n# # Only to read\n\n# %% tags=["parameters"]\nSEED = 0\n\n# %%\nprint(SEED)\n'


def test_it_is_a_unit_that_earns_nothing() -> None:
    (path,) = find_units(["00"])
    assert not read_unit(path).graded
    assert all(read_unit(other).graded for other in find_units() if other != path)
    assert "nbgrader" not in PATH.read_text(encoding="utf-8").replace("nbgrader_", "")
    rows = json.loads((ROOT / "data" / "exercises.json").read_text(encoding="utf-8"))
    assert "00_start" not in {row["unit"] for row in rows.values()}
    assert "00_start" not in {unit.name for unit in course.units()}


def test_a_unit_without_exercises_is_built_but_no_assignment(tmp_path: Path) -> None:
    """By what it holds, not by its name."""
    root = tiny(tmp_path)
    (root / "grading" / "units" / "50_plain.py").write_text(PLAIN, encoding="utf-8")
    build.write(find_units(root=root), root, quiet)
    assert [path.name for path in (root / "grading" / "source").iterdir()] == ["90_tiny"]
    assert sorted(path.name for path in (root / "notebooks").iterdir()) == ["50_plain.ipynb", "90_tiny.ipynb"]
    assert build.drift(root=root) == []
    text = (root / "notebooks" / "50_plain.ipynb").read_text(encoding="utf-8")
    (root / "notebooks" / "50_plain.ipynb").write_text(text.replace("Only", "only"), encoding="utf-8")
    assert build.drift(root=root)[0].startswith("notebooks/50_plain.ipynb differs")


def test_prove_has_nothing_to_prove_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.main(["00"]) == 0
    assert capsys.readouterr().out.strip() == "00_start: no exercises, nothing to prove."


def test_jupyterlab_can_begin_with_a_notebook(tmp_path: Path) -> None:
    assert not any("default_url" in word for word in server_command(tmp_path, 1, browser=False))
    command = server_command(tmp_path, 1, browser=False, opened="00 start.ipynb")
    assert "--LabApp.default_url=/lab/tree/00%20start.ipynb" in command


def test_the_map_adds_up_and_the_readme_tells_the_same() -> None:
    units = course.units()
    last = course.show().rows[-1]
    rows = json.loads((ROOT / "data" / "exercises.json").read_text(encoding="utf-8")).values()
    assert int(last[-2]) == len(rows) and int(last[3]) == 24
    assert int(last[-1]) == sum(row["points"] for row in rows) + sum(sum(unit.written.values()) for unit in units)
    assert all(unit.minutes and unit.needs and unit.title for unit in units)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| (\d\d) `(\w+)` \| .+? \| ([\d.]+) \| (\d+) \|", readme, re.M)
    assert told == [
        (*unit.name.split("_", 1), f"{unit.minutes / 60:.1f}", str(unit.points)) for unit in units
    ]  # fmt: skip


def test_the_table_of_exercises_holds_each_once() -> None:
    rows = json.loads((ROOT / "data" / "exercises.json").read_text(encoding="utf-8"))
    assert [row[0] for row in course.exercises().rows] == list(rows)


def test_a_release_that_says_nothing_about_itself_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "07_own.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])))
    unit = course.read_unit(path)
    assert (unit.title, unit.minutes, unit.needs, unit.points, unit.stubs) == ("07_own", 0, "", 0, {})


@pytest.mark.slow
def test_it_runs_and_shows_one_of_each(tmp_path: Path) -> None:
    notebook = execute(nbformat.read(PATH, as_version=4), tmp_path)
    assert outputs(notebook, "error") == []
    text = shown(notebook)
    for part in (
        "Once there was",
        "Everything that the course needs is here.|checks? failed",
        "○ double: not attempted yet",
        "✗ a wrong answer: not right yet",
        "✓ a right answer: right",
        "Predict first:",
        "Llama 3.1 8B",
        "The course\n",
        "Your progress\n",
        "Vocabulary\n",
    ):
        assert re.search(part, text), part


@pytest.mark.slow
def test_its_practice_can_be_solved(tmp_path: Path) -> None:
    notebook = nbformat.read(PATH, as_version=4)
    (cell,) = (cell for cell in notebook.cells if cell.source.startswith("# exercise: double"))
    stub = re.search(r"    # YOUR CODE HERE\n.*", cell.source)
    assert stub
    cell.source = cell.source.replace(
        stub[0], "    if x < 0:\n        raise ValueError('below zero')\n    return 2 * x"
    )
    at = notebook.cells.index(next(c for c in notebook.cells if "def two_more" in c.source))
    notebook.cells = notebook.cells[: at + 1]
    assert "✓ double: right" in shown(execute(notebook, tmp_path, strict=True))
