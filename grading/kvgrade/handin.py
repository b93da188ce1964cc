"""Take the answers out of a hand-in. Its bytes are the learner's: nothing in them is trusted to have a form.

An answer cell is known by its nbgrader id, else by its first line `# exercise: NAME`; editors and Colab lose metadata.
Where there are several, an edited one beats an untouched one, and of the edited ones the last counts. All other cells
are ignored. What was found beside the answers is told as facts: facts never change a mark.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_BYTES = 32 << 20
MOST_SOURCE = 60_000  # characters of one answer
MOST_TEXT = 20_000  # of a written one
_RELEASE = re.compile(r"[0-9a-f]{1,40}")
_MARKER = re.compile(r"\s*#\s*exercise:\s*([A-Za-z]\w*)")


class Unreadable(ValueError):
    """A hand-in that is no notebook. The text says what its owner should know."""


@dataclass(frozen=True)
class HandIn:
    """The answers of one hand-in by exercise or question name; facts for the instructor; why it can't be read, or ""."""

    answers: dict[str, str] = field(default_factory=dict)
    facts: list[str] = field(default_factory=list)
    unreadable: str = ""


@dataclass(frozen=True)
class Place:
    """An answer cell of the released notebook: its nbgrader id, the exercise's name, its type, its untouched source."""

    grade_id: str
    name: str
    cell_type: str
    stub: str


def places(released: Mapping[str, Any]) -> list[Place]:
    """The answer cells of a notebook, in order. Ids are `answer-NAME`; a written question is known by its id alone."""
    found = []
    for cell in released["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("solution"):
            grade_id = str(marks["grade_id"])
            name = grade_id.removeprefix("answer-")
            found.append(Place(grade_id, name, str(cell["cell_type"]), _text(cell["source"]) or ""))
    return found


def read(path: Path) -> bytes:
    """The bytes of a hand-in. Raises Unreadable for anything but a regular file of a sane size."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(f"The file can't be opened ({error.strerror}); a link is not followed.") from None
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            raise Unreadable("This is not a file but something else under a file's name.")
        if state.st_size > MOST_BYTES:
            raise Unreadable(f"The file has {state.st_size:,} bytes; a hand-in has at most {MOST_BYTES:,}.")
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(MOST_BYTES + 1)
    finally:
        os.close(fd)


def collect(data: bytes, released: Mapping[str, Any]) -> HandIn:
    """The answers in a notebook file. `released` is the notebook that learners were given."""
    try:
        cells, notebook = _cells(data)
    except Unreadable as error:
        return HandIn(unreadable=str(error))
    wanted = places(released)
    answers: dict[str, str] = {}
    facts: list[str] = []
    for place in wanted:
        sources = _sources(place, cells)
        edited = [source for source in sources if _plain(source) != _plain(place.stub)]
        if len(sources) > 1:
            facts.append(f"{place.name}: {len(sources)} answer cells were found; the last edited one counts")
        if not sources:
            facts.append(f"{place.name}: no answer cell was found")
        elif edited:
            most = MOST_SOURCE if place.cell_type == "code" else MOST_TEXT
            if len(edited[-1]) > most:
                facts.append(f"{place.name}: the answer has more than {most:,} characters and was not read")
            else:
                answers[place.name] = edited[-1]
    facts += _changed(released, cells)
    release = _release(notebook)
    if release and release != _release(released):
        facts.append(f"made from release {release}; the course now has {_release(released)}")
    return HandIn(answers, facts)


def _cells(data: bytes) -> tuple[list[tuple[str, str, str]], Mapping[str, Any]]:
    """(source, nbgrader id or "", type) of every cell that has a readable source, and the notebook itself."""
    try:
        notebook = json.loads(data.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError):
        raise Unreadable(
            "The file is not a notebook: it can't be read as JSON. Hand in the .ipynb file again."
        ) from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise Unreadable("The file is not a notebook of format 4: it has no list of cells. Save it again as .ipynb.")
    if notebook.get("nbformat") not in (4, None):
        raise Unreadable("The notebook is not of format 4. Open it in JupyterLab and save it again.")
    found = []
    for cell in notebook["cells"]:
        source = _text(cell.get("source")) if isinstance(cell, dict) else None
        if source is not None:
            found.append((source, _grade_id(cell), str(cell.get("cell_type"))[:20]))
    return found, notebook


def _text(source: Any) -> str | None:
    """The source of a cell: one text, or a list of lines. Half a character, which JSON can hold, becomes a mark."""
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    return source.encode("utf-8", "replace").decode() if isinstance(source, str) else None


def _grade_id(cell: Mapping[str, Any]) -> str:
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = marks.get("grade_id") if isinstance(marks, dict) else None
    return grade_id if isinstance(grade_id, str) else ""


def _sources(place: Place, cells: list[tuple[str, str, str]]) -> list[str]:
    """The answers to one exercise, in order.

    A marker says more than metadata, which a copied or pasted cell brings along. A cell that has the id, but no marker,
    after one that has it is the second half of a cell that was split.
    """
    found: list[list[str]] = []
    marked = False
    size = 0
    for source, grade_id, _ in cells:
        marker = _MARKER.match(source.lstrip("\ufeff")) if place.cell_type == "code" else None
        if marker:
            if marker[1] == place.name:
                found.append([source])
                marked, size = True, len(source)
        elif grade_id == place.grade_id:
            if not marked:
                found.append([source])
            elif size <= MOST_SOURCE:  # more would not be read anyway
                found[-1].append(source)
                size += len(source)
    return ["\n".join(parts) for parts in found]


def _plain(source: str) -> str:
    """A source without what editors change by themselves."""
    lines = source.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()


def _changed(released: Mapping[str, Any], cells: list[tuple[str, str, str]]) -> list[str]:
    """Locked cells that are not as they were released. One that only lost its metadata is as it was."""
    facts = []
    there_still = {(_plain(source), kind) for source, _, kind in cells if len(source) <= MOST_SOURCE}
    for cell in released["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        if not marks.get("locked") or marks.get("solution"):
            continue
        if (_plain(_text(cell["source"]) or ""), cell["cell_type"]) not in there_still:
            there = any(grade_id == marks["grade_id"] for _, grade_id, _ in cells)
            facts.append(f"the locked cell {marks['grade_id']} {'was changed' if there else 'is missing'}")
    return facts


def _release(notebook: Mapping[str, Any]) -> str:
    metadata = notebook.get("metadata")
    ours = metadata.get("kvlab") if isinstance(metadata, dict) else None
    release = ours.get("release") if isinstance(ours, dict) else None
    return release if isinstance(release, str) and _RELEASE.fullmatch(release) else ""
