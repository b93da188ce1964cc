"""The map of the course, read from the released notebooks and `data/exercises.json`: nothing is typed twice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlab.cli.files import cell_source, parse_notebook, read_release
from kvlab.cli.units import released
from kvlab.jsonfile import read_json
from kvlab.paths import data_dir
from kvlab.show import Table

_TITLE = re.compile(r"# (?:\d+ · )?(.+)")
_MINUTES = re.compile(r"About (\d+) minutes")
_NEEDS = re.compile(r"^You need: (.+?)[.:](?:\s|$)", re.M)
_CARD = re.compile(r"^## Card \d+", re.M)


@dataclass(frozen=True)
class Unit:
    """A released notebook that earns points.

    exercises: name to points, in order; written: name of each question that a person marks, to points.
    minutes, needs: as its first cell says; 0 and "" when it says nothing. stubs: the untouched text of each answer cell, by name.
    """

    name: str
    path: Path
    title: str
    minutes: int
    needs: str
    cards: int
    exercises: dict[str, int]
    written: dict[str, int]
    stubs: dict[str, str]

    @property
    def points(self) -> int:
        return sum(self.exercises.values()) + sum(self.written.values())


def units() -> list[Unit]:
    """The units with exercises, in order. Raises CommandError when a released notebook is missing or damaged."""
    found = [read_unit(path) for path in released().values()]
    return [unit for unit in found if unit.stubs]


def read_unit(path: Path) -> Unit:
    """What a released notebook says about itself."""
    cells = parse_notebook(read_release(path))["cells"]
    first = cell_source(cells[0]) if cells else ""
    text = "\n".join(cell_source(cell) for cell in cells if cell.get("cell_type") == "markdown")
    title, minutes, needs = _TITLE.match(first), _MINUTES.search(first), _NEEDS.search(first)
    stubs: dict[str, str] = {}
    points: dict[str, int] = {}
    written: dict[str, int] = {}
    for cell in cells:
        marks = nbgrader(cell)
        name = str(marks.get("grade_id", "")).removeprefix("answer-").removeprefix("check-")
        if marks.get("solution"):
            stubs[name] = cell_source(cell)
        if marks.get("grade"):
            (written if marks.get("solution") else points)[name] = int(marks.get("points", 0))
    return Unit(
        path.stem,
        path,
        title[1] if title else path.stem,
        int(minutes[1]) if minutes else 0,
        needs[1].replace("`", "") if needs else "",
        len(_CARD.findall(text)),
        points,
        written,
        stubs,
    )


def nbgrader(cell: dict[str, Any]) -> dict[str, Any]:
    """nbgrader's marks of a cell; {} where there are none."""
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return marks if isinstance(marks, dict) else {}


def show() -> Table:
    """The map: every unit with its cards, hours, exercises and points, and the sums."""
    found = units()
    rows = [
        (
            unit.name,
            unit.title,
            unit.needs,
            str(unit.cards),
            _hours(unit.minutes),
            str(len(unit.exercises)),
            str(unit.points),
        )
        for unit in found
    ]
    sums = (
        str(sum(unit.cards for unit in found)),
        _hours(sum(unit.minutes for unit in found)),
        str(sum(len(unit.exercises) for unit in found)),
        str(sum(unit.points for unit in found)),
    )
    header = ("notebook", "about", "you need", "cards", "hours", "exercises", "points")
    return Table("The course", header, (*rows, ("all", "", "", *sums)), width=48)


def exercises() -> Table:
    """All exercises with minutes, difficulty (1 to 5) and points."""
    table = read_json(data_dir() / "exercises.json", dict)
    rows = tuple(
        (name, row["unit"], str(row["minutes"]), str(row["difficulty"]), str(row["points"]))
        for name, row in table.items()
    )
    header = ("exercise", "notebook", "minutes", "difficulty", "points")
    return Table("All exercises", header, rows, folded=True)


def _hours(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}" if minutes else "–"
