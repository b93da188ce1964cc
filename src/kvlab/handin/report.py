"""What a hand-in holds and what it lacks, in words for its owner. It sees exactly what the grader collects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import answers
from .answers import Cell, Copy, Place
from .names import Look, look

Released = Mapping[str, Mapping[str, Any]]
"""Released notebooks by the name of their unit."""


@dataclass
class Exercise:
    """One exercise or written question. `state` is a word; what needs a hand is `trouble`, what is good to know a note."""

    name: str
    state: str
    trouble: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What was found. `unreadable` says why nothing was, or is ""."""

    unit: str = ""
    exercises: list[Exercise] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreadable: str = ""

    @property
    def fine(self) -> bool:
        """Whether it will be graded as its owner expects, as far as can be seen."""
        return not (self.unreadable or self.trouble or any(item.trouble for item in self.exercises))


def which_unit(cells: list[Cell], notebook: Mapping[str, Any], released: Released) -> str:
    """The unit whose exercises a notebook holds, or "": by its cells, then by the unit that its metadata names.

    The file's name says nothing: browsers, learning platforms and learners change it.
    """
    named = answers.unit_of(notebook)
    seen = {answers.marker_of(cell.source, kind) for cell in cells for kind in ("code", "markdown")}
    seen |= {cell.grade_id for cell in cells}
    counts = {
        unit: sum(bool({place.name, place.grade_id} & seen) for place in answers.places(book))
        for unit, book in released.items()
    }
    best = max(counts.values(), default=0)
    if best == 0:
        return named if named in released else ""
    if counts.get(named) == best:
        return named
    return next(unit for unit in sorted(counts) if counts[unit] == best)


def inspect(data: bytes, released: Released) -> Report:
    """Look at a hand-in of any of the released units."""
    try:
        cells, notebook = answers.parse(data)
    except answers.Unreadable as error:
        return Report(unreadable=str(error))
    unit = which_unit(cells, notebook, released)
    if not unit:
        return Report(unreadable="This notebook holds no exercise of the course.")
    report = Report(unit)
    named = answers.unit_of(notebook)
    if named and named != unit and named in released:
        report.notes.append(f"its metadata says {named}, its exercises are those of {unit}")
    release, current = answers.release_of(notebook), answers.release_of(released[unit])
    if release and release != current:
        report.notes.append(f"it is made from release {release}; the course now has {current}, which is graded")
    report.notes += [f"{fact}; it is graded with the released one" for fact in answers.changed(released[unit], cells)]
    places = answers.places(released[unit])
    given = {answers.plain("".join(cell["source"])) for cell in released[unit]["cells"]}
    own = [cell for cell in cells if cell.cell_type == "code" and answers.plain(cell.source) not in given]
    report.exercises = [_exercise(place, places, cells, own) for place in places]
    return report


def _exercise(place: Place, places: list[Place], cells: list[Cell], own: list[Cell]) -> Exercise:
    found = answers.copies(place, cells)
    counts = answers.counting(place, found)
    item = Exercise(place.name, _state(place, found, counts))
    if not found:
        item.trouble.append(f"no answer cell was found; its first line must be `{place.first_line}`")
    elif counts:
        _copies(item, place, found, counts)
        if len(counts.source) > place.most:
            size = f"{len(counts.source):,} characters; at most {place.most:,} are read"
            item.trouble.append(f"the answer has {size}: it counts as missing. Shorten it")
        elif place.cell_type == "code":
            _code(item, place, look(counts.source))
    if place.cell_type == "code":
        _claimed(item, place, places, cells)
        if not counts and (elsewhere := _defined_elsewhere(place, own)):
            where = f"another cell defines `{elsewhere}`"
            item.trouble.append(f"{where}; only the answer cell is collected: move your code into it")
    return item


def _state(place: Place, found: list[Copy], counts: Copy | None) -> str:
    if not found:
        return "missing"
    if counts is None:
        return "untouched"
    return "empty" if place.cell_type == "markdown" and answers.is_blank(counts.source) else "answered"


def _copies(item: Exercise, place: Place, found: list[Copy], counts: Copy) -> None:
    edited = {answers.plain(copy.source) for copy in found if answers.is_edited(place, copy)}
    if len(edited) > 1:
        item.trouble.append(f"{len(found)} answer cells differ; the last edited one counts. Delete the others")
    elif len(found) > 1:
        item.notes.append(f"{len(found)} answer cells; the edited one counts")
    if len(counts.cells) > 1:
        item.notes.append(f"the cell is split into {len(counts.cells)}; they are joined")
    if counts.marked and counts.cells[0].grade_id != place.grade_id:
        item.notes.append("the cell lost its id; it is known by its first line")
    elif not counts.marked and answers.marker_of(place.stub, place.cell_type):
        item.notes.append("the cell lost its first line; it is known by its id")


def _code(item: Exercise, place: Place, seen: Look) -> None:
    if seen.error:
        item.trouble.append(f"it can't be run: {seen.error}")
        return
    lacks = sorted(_definitions(place) - seen.defines)
    if lacks:
        item.trouble.append(f"it does not define {_names(lacks)}")
    if seen.outside:
        item.trouble.append(
            f"it uses {_names(seen.outside)}, which this cell does not define: only the answer cell is collected. "
            "Put helpers and imports into it"
        )


def _claimed(item: Exercise, place: Place, places: list[Place], cells: list[Cell]) -> None:
    """The cell with this exercise's id that names another exercise in its first line."""
    others = {other.name for other in places} - {place.name}
    for cell in cells:
        marker = answers.marker_of(cell.source, "code")
        if cell.grade_id == place.grade_id and marker in others:
            item.trouble.append(
                f"its cell begins with `# exercise: {marker}` and counts for that one; it must be `{place.first_line}`"
            )


def _defined_elsewhere(place: Place, own: list[Cell]) -> str:
    """A name of the exercise that a cell of the learner's own defines, or ""."""
    wanted = _definitions(place)
    for cell in own:
        if len(cell.source) <= place.most and any(name in cell.source for name in wanted):
            defines = look(cell.source).defines & wanted
            if defines:
                return min(defines)
    return ""


def _definitions(place: Place) -> frozenset[str]:
    """The names that the released cell defines and every answer must define too."""
    return look(place.stub).defines


def _names(names: list[str]) -> str:
    shown = [f"`{name}`" for name in names[:8]]
    return ", ".join(shown) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
