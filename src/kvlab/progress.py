"""What is solved, tried and open, read from the learner's own saved notebooks. Nothing is run, nothing is sent.

A check leaves in its output which text of the answer it has seen (`kvlab.check.answer`). An answer that was edited
after its last check therefore counts as tried, not as solved.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from kvlab import course
from kvlab.check.answer import KEY, fingerprint
from kvlab.cli.files import cell_source, full_path, parse_notebook
from kvlab.cli.workspace import default_folder
from kvlab.handin.answers import is_blank
from kvlab.handin.names import look
from kvlab.show import Table

Cell = dict[str, Any]
_MARKER = re.compile(r"\s*#\s*exercise:\s*([A-Za-z]\w*)")
_MANUAL = re.compile(r"\s*<!-- answer: (\w+) -->")
_COPIES = re.compile(r"\.bak\.ipynb$|-checkpoint\.ipynb$")


class Standing(Enum):
    """Where an exercise stands; the value says it in a word."""

    SOLVED = "solved"
    TRIED = "tried"
    OPEN = "open"


@dataclass(frozen=True)
class Item:
    """One exercise or written question. `why`: what keeps a tried one from being solved, or "empty" for a deleted text."""

    name: str
    points: int
    standing: Standing
    why: str = ""


@dataclass(frozen=True)
class UnitProgress:
    """One unit: its exercises, its written questions (tried means: something is written), and what to know about it.

    lacks: "missing" when no file for it is in the folder, "damaged" when none can be read, else "". What is in such a
    unit is not known, so it is not counted.
    """

    unit: course.Unit
    exercises: tuple[Item, ...]
    written: tuple[Item, ...]
    notes: tuple[str, ...] = ()
    lacks: str = ""

    @property
    def solved_points(self) -> int:
        return sum(item.points for item in self.exercises if item.standing is Standing.SOLVED)

    def names(self, standing: Standing) -> list[str]:
        """The exercises that stand so."""
        return [item.name for item in self.exercises if item.standing is standing]


def show(folder: Path | str | None = None) -> Table:
    """The table of `kvlab progress`. `folder`: where your notebooks are (default: this one, or work/ of the course)."""
    where = default_folder() if folder is None else full_path(Path(folder))
    return as_table(read(where), where)


def read(folder: Path) -> list[UnitProgress]:
    """Every unit of the course against the notebooks in `folder`. A missing or damaged one is not counted.

    Raises CommandError when the course's own released notebooks are missing or damaged.
    """
    found = _notebooks(folder)
    return [_unit(unit, found.get(unit.name, [])) for unit in course.units()]


def as_table(found: list[UnitProgress], folder: Path) -> Table:
    """One row for each unit; above it what is not solved yet and why, and what to do next."""
    header = ("notebook", "solved", "tried", "open", "points", "written question")
    rows = tuple(_row(item) for item in found)
    total = sum(item.unit.points for item in found)
    counted = [part for part in found if not part.lacks]
    sums = [str(sum(len(item.names(standing)) for item in counted)) if counted else "?" for standing in Standing]
    notes = [f"{item.name} ({part.unit.name}): {item.why}" for part in found for item in part.exercises if item.why]
    notes += [note for part in found for note in part.notes]
    if unread := [f"{part.unit.name} ({part.lacks})" for part in found if part.lacks]:
        notes.append(f"Not counted: {', '.join(unread)}.")
    if missing := [f"{part.unit.name}.ipynb" for part in found if part.lacks == "missing"]:
        names = "none of the notebooks" if len(missing) == len(found) else ", ".join(missing)
        todo = "`kvlab lab` puts what is missing there."
        if "google.colab" in sys.modules:
            todo = "On Colab they are in your Drive: once it is mounted, give its folder, progress.show(FOLDER)."
        notes.append(f"Not found in {folder}: {names}. {todo}")
    written = sum(points for part in found for points in part.unit.written.values())
    notes += [
        f"Next: {next_step(found)}",
        f"Read from {folder} as saved; nothing was run or sent. Solved: its check says right for the text that stands there now.",
        f"{written} of the {total} points are for written questions, which a person marks. Quizzes earn no points and leave no trace.",
    ]
    points = f"{sum(item.solved_points for item in counted) if counted else '?'} of {total}"
    return Table("Your progress", header, (*rows, ("all", *sums, points, "")), notes=tuple(notes), width=60)


def next_step(found: list[UnitProgress]) -> str:
    """What to do next: the first unit with something to do; in it, what was begun before what is open."""
    for part in [part for part in found if not part.lacks]:
        for standing, words in ((Standing.TRIED, "go on with"), (Standing.OPEN, "begin")):
            if names := part.names(standing):
                return f"{words} {names[0]} in {part.unit.name}."
        if unwritten := [item.name for item in part.written if item.standing is Standing.OPEN]:
            return f"answer the written question {unwritten[0]} in {part.unit.name}."
    if unread := [part.unit.name for part in found if part.lacks]:
        return f"get {unread[0]} back; it is not counted here."
    return "everything is done."


def _row(part: UnitProgress) -> tuple[str, ...]:
    if part.lacks:
        return (part.unit.name, "?", "?", "?", f"? of {part.unit.points}", "?" if part.written else "")
    counts = [str(len(part.names(standing))) for standing in Standing]
    points = f"{part.solved_points} of {part.unit.points}"
    written = ", ".join(item.why or ("open" if item.standing is Standing.OPEN else "written") for item in part.written)
    return (part.unit.name, *counts, points, written)


def _notebooks(folder: Path) -> dict[str, list[tuple[Path, list[Cell] | str]]]:
    """Unit name to its files with their cells, or with the reason why there are none.

    The unit is the one that the notebook's own metadata name, else the one whose name stands in the file's name.
    """
    known = [unit.name for unit in course.units()]
    found: dict[str, list[tuple[Path, list[Cell] | str]]] = {}
    for path in sorted(folder.glob("*.ipynb")) if folder.is_dir() else []:
        if _COPIES.search(path.name):
            continue
        named = next((name for name in known if name in path.stem), None)
        try:
            notebook = parse_notebook(path.read_bytes())
        except OSError as error:
            reason = f"it cannot be read ({error.strerror or error})"
            notebook = None
        except (ValueError, RecursionError) as error:
            reason, notebook = str(error), None
        if notebook is None:
            if named:
                found.setdefault(named, []).append((path, reason))
            continue
        unit = _own_name(notebook) or named
        if unit in known:
            found.setdefault(str(unit), []).append((path, notebook["cells"]))
    return found


def _own_name(notebook: dict[str, Any]) -> str | None:
    metadata = notebook.get("metadata")
    mark = metadata.get("kvlab") if isinstance(metadata, dict) else None
    name = mark.get("unit") if isinstance(mark, dict) else None
    return name if isinstance(name, str) else None


def _unit(unit: course.Unit, files: list[tuple[Path, list[Cell] | str]]) -> UnitProgress:
    usual = f"{unit.name}.ipynb"
    readable = [(path, cells) for path, cells in files if isinstance(cells, list)]
    notes = [f"{path.name} is not a readable notebook: {why}." for path, why in files if isinstance(why, str)]
    # A copy with work in it beats an untouched one; of two such the usual name does.
    readable.sort(key=lambda item: (not _has_work(unit, item[1]), item[0].name != usual))
    number = unit.name.split("_")[0]
    if not readable:
        notes = [f"{note} `kvlab reset {number}` gives you the release and keeps a copy." for note in notes]
        return UnitProgress(unit, *_items(unit, []), tuple(notes), "damaged" if notes else "missing")
    path, cells = readable[0]
    if path.name != usual:
        notes.append(f"{unit.name} was found under another name: {path.name}.")
    if others := [other.name for other, _ in readable[1:]]:
        notes.append(f"{unit.name} is there more than once; {path.name} was read, not {', '.join(others)}.")
    return UnitProgress(unit, *_items(unit, cells), tuple(notes))


def _has_work(unit: course.Unit, cells: list[Cell]) -> bool:
    """Whether any answer in these cells differs from the release."""
    return any(_answer(cells, name, stub) is not None for name, stub in unit.stubs.items())


def _items(unit: course.Unit, cells: list[Cell]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """The exercises and the written questions of a unit as they stand in these cells."""
    records = list(_records(cells))
    exercises = []
    for name, points in unit.exercises.items():
        text = _answer(cells, name, unit.stubs[name])
        seen = [record for record in records if record.get("exercise") == name]
        exercises.append(Item(name, points, *_standing(text, seen)))
    written = []
    for name, points in unit.written.items():
        text = _answer(cells, name, unit.stubs[name])
        empty = text is not None and is_blank(text)
        standing = Standing.OPEN if text is None or empty else Standing.TRIED
        written.append(Item(name, points, standing, "empty" if empty else ""))
    return tuple(exercises), tuple(written)


def _standing(text: str | None, seen: list[dict[str, Any]]) -> tuple[Standing, str]:
    if text is None:
        return Standing.OPEN, ""
    states = [record.get("state") for record in seen if record.get("answer") == fingerprint(text)]
    if states:
        if states[-1] != "right":
            return Standing.TRIED, "not right at its last check."
        if outside := look(text).outside:
            names = " and ".join(f"`{name}`" for name in outside)
            why = f"right there, but it uses {names}, which its cell does not define. Only that cell is graded: move it in."
            return Standing.TRIED, why
        return Standing.SOLVED, ""
    if any(record.get("answer") for record in seen):
        return Standing.TRIED, "not checked since it was changed. Run its cell and its check again, and save."
    if any(record.get("state") == "right" for record in seen):
        return (
            Standing.TRIED,
            "its check does not say which text was right. Run its cell and its check again, and save.",
        )
    return Standing.TRIED, "no result of its check is saved. Run its cell and its check, and save."


def _answer(cells: list[Cell], name: str, stub: str) -> str | None:
    """The learner's text for an exercise or question; None while it is as released. As in grading, the last edit counts."""
    texts = [cell_source(cell) for cell in cells if _is_answer(cell, name)]
    edited = [text for text in texts if fingerprint(text) != fingerprint(stub)]
    return edited[-1] if edited else None


def _is_answer(cell: Cell, name: str) -> bool:
    if course.nbgrader(cell).get("grade_id") == f"answer-{name}":
        return True
    pattern = _MARKER if cell.get("cell_type") == "code" else _MANUAL
    match = pattern.match(cell_source(cell))
    return bool(match and match[1] == name)


def _records(cells: list[Cell]) -> Iterator[dict[str, Any]]:
    """What the panels of all checks have left, in order."""
    for cell in cells:
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else []:
            metadata = output.get("metadata") if isinstance(output, dict) else None
            mark = metadata.get(KEY) if isinstance(metadata, dict) else None
            if isinstance(mark, dict):
                yield mark
