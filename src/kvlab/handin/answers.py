"""Take the answers out of a hand-in. Its bytes are the learner's: nothing in them is trusted to have a form.

An answer cell is known by its nbgrader id, else by its first line, `# exercise: NAME` or `<!-- answer: NAME -->`; editors
and Colab lose metadata. Where there are several, an edited one beats an untouched one, and of the edited ones the last counts. All other cells are
ignored. What was found beside the answers is told as facts: facts never change a mark.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

MOST_BYTES = 32 << 20
MOST_SOURCE = 60_000  # characters of one answer
MOST_TEXT = 20_000  # of a written one
_RELEASE = re.compile(r"[0-9a-f]{1,40}")
_MARKERS = {
    "code": re.compile(r"\s*#\s*exercise:\s*([A-Za-z]\w*)"),
    "markdown": re.compile(r"\s*<!--\s*answer:\s*([A-Za-z]\w*)\s*-->"),
}


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

    @property
    def first_line(self) -> str:
        """The marker: a second identity beside the id."""
        return f"# exercise: {self.name}" if self.cell_type == "code" else f"<!-- answer: {self.name} -->"

    @property
    def most(self) -> int:
        """The characters that an answer may have."""
        return MOST_SOURCE if self.cell_type == "code" else MOST_TEXT


class Cell(NamedTuple):
    """A cell of a hand-in that has a readable source. `grade_id` is "" where it has none."""

    source: str
    grade_id: str
    cell_type: str


@dataclass
class Copy:
    """One answer to an exercise: the cells it is made of (more than one after a split), and how it was found."""

    cells: list[Cell]
    marked: bool

    @property
    def source(self) -> str:
        return "\n".join(cell.source for cell in self.cells)


def places(released: Mapping[str, Any]) -> list[Place]:
    """The answer cells of a notebook, in order. Ids are `answer-NAME`."""
    found = []
    for cell in released["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("solution"):
            grade_id = str(marks["grade_id"])
            name = grade_id.removeprefix("answer-")
            found.append(Place(grade_id, name, str(cell["cell_type"]), text_of(cell["source"]) or ""))
    return found


def read(path: Path) -> bytes:
    """The bytes of a hand-in. Raises Unreadable for anything but a regular file of a sane size."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # no system has all of them
        flags |= getattr(os, name, 0)
    try:
        fd = os.open(path, flags)
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
        cells, notebook = parse(data)
    except Unreadable as error:
        return HandIn(unreadable=str(error))
    answers: dict[str, str] = {}
    facts: list[str] = []
    for place in places(released):
        found = copies(place, cells)
        counts = counting(place, found)
        if len(found) > 1:
            facts.append(f"{place.name}: {len(found)} answer cells were found; the last edited one counts")
        if not found:
            facts.append(f"{place.name}: no answer cell was found")
        elif counts:
            source = counts.source
            if len(source) > place.most:
                facts.append(f"{place.name}: the answer has more than {place.most:,} characters and was not read")
            else:
                answers[place.name] = source
    facts += changed(released, cells)
    release = release_of(notebook)
    if release and release != release_of(released):
        facts.append(f"made from release {release}; the course now has {release_of(released)}")
    return HandIn(answers, facts)


def parse(data: bytes) -> tuple[list[Cell], Mapping[str, Any]]:
    """The cells of a notebook file that have a readable source, and the notebook itself. Raises Unreadable."""
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
        source = text_of(cell.get("source")) if isinstance(cell, dict) else None
        if source is not None:
            found.append(Cell(source, _grade_id(cell), str(cell.get("cell_type"))[:20]))
    return found, notebook


def copies(place: Place, cells: list[Cell]) -> list[Copy]:
    """The answers to one exercise, in order.

    A marker says more than metadata, which a copied or pasted cell brings along. A cell that has the id, but no marker,
    after one that has it is the second half of a cell that was split.
    """
    found: list[Copy] = []
    marked = False
    size = 0
    for cell in cells:
        marker = marker_of(cell.source, place.cell_type)
        if marker:
            if marker == place.name:
                found.append(Copy([cell], True))
                marked, size = True, len(cell.source)
        elif cell.grade_id == place.grade_id:
            if not marked:
                found.append(Copy([cell], False))
            elif size <= MOST_SOURCE:  # more would not be read anyway
                found[-1].cells.append(cell)
                size += len(cell.source)
    return found


def counting(place: Place, found: list[Copy]) -> Copy | None:
    """The copy that counts: the last edited one, if any is edited."""
    edited = [copy for copy in found if is_edited(place, copy)]
    return edited[-1] if edited else None


def is_edited(place: Place, copy: Copy) -> bool:
    """Whether a copy is more than the released cell."""
    return plain(copy.source) != plain(place.stub)


def is_blank(source: str) -> bool:
    """Whether a written answer says nothing: only blanks, and comments such as the marker."""
    return not re.sub(r"<!--.*?-->", "", source.lstrip("\ufeff"), flags=re.S).strip()


def marker_of(source: str, cell_type: str) -> str:
    """The exercise (code) or written question (markdown) that the first line of a cell names, or ""."""
    marker = _MARKERS[cell_type].match(source.lstrip("\ufeff"))
    return marker[1] if marker else ""


def plain(source: str) -> str:
    """A source without what editors change by themselves."""
    lines = source.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()


def changed(released: Mapping[str, Any], cells: list[Cell]) -> list[str]:
    """Locked cells that are not as they were released. One that only lost its metadata is as it was."""
    facts = []
    there_still = {(plain(cell.source), cell.cell_type) for cell in cells if len(cell.source) <= MOST_SOURCE}
    for cell in released["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        if not marks.get("locked") or marks.get("solution"):
            continue
        if (plain(text_of(cell["source"]) or ""), cell["cell_type"]) not in there_still:
            there = any(other.grade_id == marks["grade_id"] for other in cells)
            facts.append(f"the locked cell {marks['grade_id']} {'was changed' if there else 'is missing'}")
    return facts


def release_of(notebook: Mapping[str, Any]) -> str:
    """The release that a notebook says it is made from, or ""."""
    release = _ours(notebook).get("release")
    return release if isinstance(release, str) and _RELEASE.fullmatch(release) else ""


def unit_of(notebook: Mapping[str, Any]) -> str:
    """The unit that a notebook's metadata names, whatever that is, or ""."""
    unit = _ours(notebook).get("unit")
    return unit if isinstance(unit, str) else ""


def _ours(notebook: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = notebook.get("metadata")
    ours = metadata.get("kvlab") if isinstance(metadata, dict) else None
    return ours if isinstance(ours, dict) else {}


def text_of(source: Any) -> str | None:
    """The source of a cell: one text, or a list of lines. Half a character, which JSON can hold, becomes a mark."""
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    return source.encode("utf-8", "replace").decode() if isinstance(source, str) else None


def _grade_id(cell: Mapping[str, Any]) -> str:
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = marks.get("grade_id") if isinstance(marks, dict) else None
    return grade_id if isinstance(grade_id, str) else ""
