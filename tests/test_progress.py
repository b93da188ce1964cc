"""`kvlab progress`: notebooks that nbclient has run and saved, as learners leave them, and every accident of a file."""

import ast
import copy
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kvgrade.units import find_units, read_unit
from kvlab import course, progress
from kvlab.check import answer
from kvlab.check.panel import Panel, State
from kvlab.cli.main import main
from kvlab.progress import Standing
from notebook_runs import execute
from tiny_course import NAME, write
from tiny_course import course as tiny

RIGHT = """# exercise: running_mean
def running_mean(x):
    %matplotlib inline
    if len(x) == 0:
        raise ValueError("empty")
    return [sum(x[: i + 1]) / (i + 1) for i in range(len(x))]
"""
COUNTER = """# exercise: counter
class Counter:
    def __init__(self):
        self.n = 0
    def add(self, n):
        if n < 0:
            raise ValueError("negative")
        self.n += n
    def total(self):
        return self.n
counter = Counter  # the check looks an answer up by the exercise's name
"""
Notebook = Any


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release with one unit."""
    root = tiny(tmp_path_factory.mktemp("release"))
    write(root)
    return root / "notebooks"


@pytest.fixture(autouse=True)
def _released(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_NOTEBOOKS", str(release))


def fresh(release: Path) -> Notebook:
    return nbformat.read(release / f"{NAME}.ipynb", as_version=4)


def cell(notebook: Notebook, grade_id: str) -> Any:
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


@pytest.fixture(scope="module")
def done(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    """running_mean solved, counter as released, nothing written; run and with its outputs."""
    notebook = fresh(release)
    cell(notebook, "answer-running_mean").source = RIGHT
    return execute(notebook, tmp_path_factory.mktemp("run"))


def read(work: Path, notebook: Notebook, name: str = f"{NAME}.ipynb") -> dict[str, tuple[Standing, str]]:
    """The standing of everything in a saved notebook."""
    work.mkdir(exist_ok=True)
    nbformat.write(notebook, work / name)
    (part,) = progress.read(work)
    return {item.name: (item.standing, item.why) for item in (*part.exercises, *part.written)}


def test_a_solved_an_open_and_an_unwritten_one(done: Notebook, tmp_path: Path) -> None:
    found = read(tmp_path, done)
    assert found == {
        "running_mean": (Standing.SOLVED, ""),
        "counter": (Standing.OPEN, ""),
        "why_mean": (Standing.OPEN, ""),
    }
    text = str(progress.as_table(progress.read(tmp_path), tmp_path))
    assert "2 of 6" in text and f"Next: begin counter in {NAME}." in text


def edited(old: str, new: str) -> Callable[[Notebook], None]:
    def edit(notebook: Notebook) -> None:
        target = cell(notebook, "answer-running_mean")
        assert old in target.source
        target.source = target.source.replace(old, new)

    return edit


def without_outputs(notebook: Notebook) -> None:
    for item in notebook.cells:
        if "outputs" in item:
            item.outputs = []


def without_cell_metadata(notebook: Notebook) -> None:
    """As some editors and Colab do it: only the marker line is left to know an answer by."""
    for item in notebook.cells:
        item.metadata = {}
    notebook.metadata = {}


def without_output_metadata(notebook: Notebook) -> None:
    for item in notebook.cells:
        for output in item.get("outputs", []):
            if "metadata" in output:
                output.metadata = {}


def without_marker(notebook: Notebook) -> None:
    edited("# exercise: running_mean\n", "")(notebook)


def spaces_only(notebook: Notebook) -> None:
    edited('empty")', 'empty")   ')(notebook)
    cell(notebook, "answer-running_mean").source += "\n\n"


def another_answer_below(notebook: Notebook) -> None:
    """Of two edited answer cells the last one counts, as in grading."""
    notebook.cells.append(nbformat.v4.new_code_cell("# exercise: running_mean\ndef running_mean(x):\n    return x"))


def untouched_copy_below(notebook: Notebook) -> None:
    """An edited answer cell counts before one that is as released, wherever it stands."""
    (unit,) = course.units()
    notebook.cells.append(nbformat.v4.new_code_cell(unit.stubs["running_mean"]))


@pytest.mark.parametrize(
    ("change", "standing", "why"),
    [
        (edited("i + 1) for", "i + 2) for"), Standing.TRIED, "not checked since it was changed"),
        (edited("empty", "nothing"), Standing.TRIED, "not checked since it was changed"),
        (without_marker, Standing.TRIED, "not checked since it was changed"),
        (another_answer_below, Standing.TRIED, "not checked since it was changed"),
        (without_outputs, Standing.TRIED, "no result of its check is saved"),
        (without_output_metadata, Standing.TRIED, "no result of its check is saved"),
        (without_cell_metadata, Standing.SOLVED, ""),
        (untouched_copy_below, Standing.SOLVED, ""),
        (spaces_only, Standing.SOLVED, ""),
    ],
)
def test_what_happens_to_a_solved_one_after_its_check(
    done: Notebook, tmp_path: Path, change: Callable[[Notebook], None], standing: Standing, why: str
) -> None:
    notebook = copy.deepcopy(done)
    change(notebook)
    found = read(tmp_path, notebook)["running_mean"]
    assert found[0] is standing and found[1].startswith(why)
    assert bool(why) == bool(found[1])


def test_an_edit_taken_back_counts_again(done: Notebook, tmp_path: Path) -> None:
    notebook = copy.deepcopy(done)
    edited("i + 1) for", "i + 2) for")(notebook)
    assert read(tmp_path, notebook)["running_mean"][0] is Standing.TRIED
    edited("i + 2) for", "i + 1) for")(notebook)
    assert read(tmp_path, notebook)["running_mean"][0] is Standing.SOLVED


def test_wrong_written_and_answered_elsewhere(release: Path, tmp_path: Path) -> None:
    """A second run: a wrong answer; a class that is right; a text; and a right function outside of any answer cell."""
    notebook = fresh(release)
    cell(notebook, "answer-running_mean").source = RIGHT.replace("(i + 1)", "len(x)")
    cell(notebook, "answer-counter").source = COUNTER
    cell(notebook, "answer-why_mean").source += "\nBecause."
    found = read(tmp_path / "work", execute(notebook, tmp_path))
    assert found["running_mean"] == (Standing.TRIED, "not right at its last check.")
    assert found["why_mean"] == (Standing.TRIED, "")
    assert found["counter"][0] is Standing.SOLVED


def test_a_right_function_in_another_cell_solves_nothing(release: Path, tmp_path: Path) -> None:
    notebook = fresh(release)
    at = notebook.cells.index(cell(notebook, "check-running_mean"))
    notebook.cells.insert(at, nbformat.v4.new_code_cell(RIGHT.removeprefix("# exercise: running_mean\n")))
    ran = execute(notebook, tmp_path)
    shown = [output for output in cell(ran, "check-running_mean").outputs if "running_mean: right" in str(output)]
    assert shown, "the check itself is satisfied"
    assert read(tmp_path / "work", ran)["running_mean"] == (Standing.OPEN, "")
    cell(ran, "answer-running_mean").source = RIGHT.replace("empty", "my own")
    assert read(tmp_path / "work", ran)["running_mean"][0] is Standing.TRIED


def test_files_that_are_missing_damaged_renamed_or_there_twice(done: Notebook, tmp_path: Path) -> None:
    def notes() -> list[str]:
        (part,) = progress.read(tmp_path)
        return list(part.notes)

    table = str(progress.as_table(progress.read(tmp_path / "none"), tmp_path / "none"))
    assert f"Not found in {tmp_path / 'none'}: none of the notebooks. `kvlab lab`" in table
    (tmp_path / f"{NAME}.ipynb").write_text("{")
    (note,) = notes()
    assert note.startswith(f"{NAME}.ipynb is not a readable notebook: it is not JSON") and "`kvlab reset 90`" in note
    (tmp_path / f"{NAME}.ipynb").write_text('{"cells": [3]}')
    assert "it has no list of cells" in notes()[0]
    (tmp_path / f"{NAME}.ipynb").unlink()
    (tmp_path / f"{NAME}.ipynb").mkdir()
    assert "it cannot be read (Is a directory)" in notes()[0]
    (tmp_path / f"{NAME}.ipynb").rmdir()
    read(tmp_path, done, "my homework.ipynb")
    assert notes() == [f"{NAME} was found under another name: my homework.ipynb."]
    (tmp_path / f"{NAME}.2026-01-01_120000.bak.ipynb").write_text("{")
    nbformat.write(done, tmp_path / "other.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "notes.ipynb")
    assert read(tmp_path, done)["running_mean"][0] is Standing.SOLVED
    assert notes() == [f"{NAME} is there more than once; {NAME}.ipynb was read, not my homework.ipynb, other.ipynb."]


def test_the_copy_with_work_in_it_is_read(release: Path, done: Notebook, tmp_path: Path) -> None:
    """Beside an untouched copy under the usual name, which `kvlab lab` puts there again after a renaming."""
    nbformat.write(done, tmp_path / "my homework.ipynb")
    assert read(tmp_path, fresh(release))["running_mean"][0] is Standing.SOLVED
    (part,) = progress.read(tmp_path)
    assert part.notes[-1] == f"{NAME} is there more than once; my homework.ipynb was read, not {NAME}.ipynb."


@pytest.mark.parametrize(("text", "lacks"), [("{", "damaged"), (None, "missing")])
def test_what_can_not_be_read_is_not_counted(tmp_path: Path, text: str | None, lacks: str) -> None:
    if text is not None:
        (tmp_path / f"{NAME}.ipynb").write_text(text)
    table = progress.as_table(progress.read(tmp_path), tmp_path)
    assert table.rows == ((NAME, "?", "?", "?", "? of 6", "?"), ("all", "?", "?", "?", "? of 6", ""))
    assert f"Not counted: {NAME} ({lacks})." in table.notes
    assert f"Next: get {NAME} back; it is not counted here." in table.notes


@pytest.mark.parametrize("text", ["", " \n\n", "<!-- answer: why_mean -->\n \n"])
def test_a_written_answer_that_was_emptied(release: Path, tmp_path: Path, text: str) -> None:
    notebook = fresh(release)
    cell(notebook, "answer-why_mean").source = text
    assert read(tmp_path, notebook)["why_mean"] == (Standing.OPEN, "empty")
    assert progress.as_table(progress.read(tmp_path), tmp_path).rows[0][-1] == "empty"


def test_a_right_answer_that_leans_on_another_cell_is_not_solved(release: Path, tmp_path: Path) -> None:
    notebook = fresh(release)
    answer_cell = cell(notebook, "answer-running_mean")
    answer_cell.source = RIGHT.replace("sum(", "my_helper(")
    notebook.cells.insert(notebook.cells.index(answer_cell), nbformat.v4.new_code_cell("my_helper = sum"))
    ran = execute(notebook, tmp_path)
    panel = str(cell(ran, "check-running_mean").outputs)
    assert "running_mean: right" in panel and "uses `my_helper` from another cell" in panel
    standing, why = read(tmp_path / "work", ran)["running_mean"]
    assert standing is Standing.TRIED and why.startswith("right there, but it uses `my_helper`")


@pytest.mark.parametrize(
    "damage",
    [
        lambda nb: nb.update(metadata=[]),
        lambda nb: nb["cells"].append({}),
        lambda nb: nb["cells"].append({"cell_type": "code", "source": 3, "outputs": [None, {"metadata": 1}]}),
        lambda nb: nb["cells"].append({"outputs": [{"metadata": {"kvlab": {"exercise": []}}}], "metadata": None}),
        lambda nb: nb["metadata"].update(kvlab={"unit": ["x"]}),
    ],
)
def test_odd_json_is_read_as_far_as_it_goes(
    done: Notebook, tmp_path: Path, damage: Callable[[dict[str, Any]], None]
) -> None:
    content = json.loads(nbformat.writes(done))
    damage(content)
    (tmp_path / f"{NAME}.ipynb").write_text(json.dumps(content))
    (part,) = progress.read(tmp_path)
    assert part.names(Standing.SOLVED) == ["running_mean"] and part.notes == ()


def test_the_command_reads_and_changes_nothing(
    done: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read(tmp_path, done)
    (tmp_path / ".kvlab").mkdir()
    (tmp_path / ".kvlab" / "manifest.json").write_text("{}")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert main(["progress", "--dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.strip() == str(progress.show(tmp_path)).strip()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    monkeypatch.chdir(tmp_path)
    assert progress.default_folder() == tmp_path
    assert str(progress.show()).strip() == out.strip(), "in a folder of `kvlab lab` that folder is meant"


def test_on_colab_the_advice_is_another_one(done: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "`kvlab lab`" in str(progress.show(tmp_path))
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    assert "in your Drive" in str(progress.show(tmp_path)) and "kvlab lab" not in str(progress.show(tmp_path))
    done = copy.deepcopy(done)
    without_cell_metadata(done)
    assert read(tmp_path, done, f"Copy of {NAME} (1).ipynb")["running_mean"][0] is Standing.SOLVED


def test_the_next_step_goes_on_before_it_begins() -> None:
    unit = course.Unit("01_a", Path("x"), "A", 1, "", 1, {"one": 1, "two": 2}, {"why": 3}, {})

    def step(one: Standing, two: Standing, why: Standing) -> str:
        items = (progress.Item("one", 1, one), progress.Item("two", 2, two))
        return progress.next_step([progress.UnitProgress(unit, items, (progress.Item("why", 3, why),))])

    assert step(Standing.OPEN, Standing.TRIED, Standing.OPEN) == "go on with two in 01_a."
    assert step(Standing.OPEN, Standing.SOLVED, Standing.OPEN) == "begin one in 01_a."
    assert step(Standing.SOLVED, Standing.SOLVED, Standing.OPEN) == "answer the written question why in 01_a."
    assert step(Standing.SOLVED, Standing.SOLVED, Standing.TRIED) == "everything is done."


@pytest.mark.parametrize("path", find_units(), ids=lambda path: path.stem)
def test_each_answer_defines_the_name_of_its_exercise(path: Path) -> None:
    """A check looks the answer up by that name, to say which text it has seen."""
    for item in read_unit(path).with_role("exercise"):
        defined = [
            node.name for node in ast.parse(item.source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        assert item.name in defined


@pytest.mark.parametrize("target", [None, 3, len, object(), type("Empty", (), {})])
def test_what_no_cell_defines_has_no_text(target: object) -> None:
    assert answer.record(Panel("x", State.RIGHT), target) == {
        "kvlab": {"exercise": "x", "state": "right", "answer": None}
    }


def test_wrapped_functions_and_methods_lead_to_their_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    import functools
    import linecache

    source = "class Shelf:\n    @staticmethod\n    def f():\n        pass\n"
    monkeypatch.setitem(linecache.cache, "cell", (len(source), None, source.splitlines(True), "cell"))
    space: dict[str, Any] = {}
    exec(compile(source, "cell", "exec"), space)
    assert answer.cell_of(space["Shelf"]) == source
    wrapped = functools.wraps(space["Shelf"].f)(lambda: None)
    assert answer.cell_of(wrapped) == source
    wrapped.__wrapped__ = wrapped
    assert answer.cell_of(wrapped) is None, "wrapped in a circle"
