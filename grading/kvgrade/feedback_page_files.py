"""Write the feedback pages of a class to where `nbgrader release_feedback` and people look for them.

feedback/<student>/<unit>/<unit>.html, beside it the hand-in's timestamp and secret, by which nbgrader's exchange finds
the hand-in that a page belongs to. A page that would not change is not touched.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import feedback_page, folders, handin, results, standing
from .course import Course
from .texts import clean

FROM_EXCHANGE = ("timestamp.txt", "submission_secret.txt")
HANDED_IN_AGAIN = "handed in again since it was graded"
READABLE = 0o644  # nbgrader copies the mode to the exchange, where learners read the page


@dataclass(frozen=True)
class Written:
    """What was done for a unit: the pages by student, how many are new or changed, what a person should know."""

    files: Mapping[str, Path]
    changed: int
    notes: list[str]
    newer: Sequence[str] = ()  # who handed in again since: their pages are about the older file

    @property
    def pages(self) -> int:
        return len(self.files)


def write(course: Course, unit: str, students: Sequence[str] = ()) -> Written:
    """Write the pages of a unit, of some students if named.

    Raises ValueError for a student without a graded hand-in, CourseError where nothing is released or graded.
    """
    graded = results.merged(course.results(unit))
    for student in students:
        if student not in graded:
            raise ValueError(
                f"{clean(student)} has no graded hand-in of {unit}: run `python -m kvgrade grade --unit {unit}` first."
            )
    places = standing.places(course, unit)
    in_book = standing.standings(course, unit)
    title, hints = standing.heading(unit), feedback_page.first_hints(unit)
    wanted = [student for student in graded if (not students or student in students) and student in in_book]
    again = newer(course, unit, {student: graded[student] for student in wanted})
    changed = 0
    for student in wanted:
        page = feedback_page.page(title, graded[student], in_book[student], places, hints)
        changed += _place(course, student, unit, page, student in again)
    missing = [s for s in sorted({*course.submitted(unit), *in_book}) if s not in graded] if not students else []
    lost = [s for s in graded if s not in in_book] if not students else []
    found = {
        "not graded yet, no page": missing,
        f"{HANDED_IN_AGAIN}, the page is about the older file": again,
        "graded, but not in the gradebook, no page": lost,
    }
    notes = [line for what, who in found.items() for line in _note(unit, what, who)]
    step = course.directory.feedback_directory
    return Written({s: course.folder(step, s, unit) / f"{unit}.html" for s in wanted}, changed, notes, again)


def _place(course: Course, student: str, unit: str, page: bytes, newer: bool) -> bool:
    """Write a page and what belongs to it; whether the page is new or changed.

    newer: submitted/ holds another hand-in than the one that was graded; its secret is not that of this page.
    """
    directory = course.directory
    folder = course.folder(directory.feedback_directory, student, unit)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (name for name in FROM_EXCHANGE if not (newer and (folder / name).is_file())):
        steps = (directory.autograded_directory, directory.submitted_directory)
        for source in (course.folder(step, student, unit) / name for step in steps):
            if source.is_file() and not source.is_symlink():
                _write(folder / name, handin.read(source))
                break
    return _write(folder / f"{unit}.html", page)


def _write(target: Path, data: bytes) -> bool:
    if target.is_file() and target.read_bytes() == data:
        return False
    results.write_atomic(target, data, READABLE)
    return True


def old_marks(course: Course, unit: str, students: Container[str]) -> list[str]:
    """A line on those of `students` whose marks are about an older file than the one that they handed in, if any."""
    graded = {student: one for student, one in results.merged(course.results(unit)).items() if student in students}
    return _note(unit, f"{HANDED_IN_AGAIN}, the marks are about the older file", newer(course, unit, graded))


def _note(unit: str, what: str, who: Sequence[str]) -> list[str]:
    shown = ", ".join(map(clean, who[:10])) + (", …" if len(who) > 10 else "")
    return [f"{len(who)} {what}: {shown} (run `python -m kvgrade grade --unit {unit}`)"] if who else []


def newer(course: Course, unit: str, graded: Mapping[str, results.Result]) -> list[str]:
    """Those of `graded` whose hand-in in submitted/ is another file than the one that was graded: their marks are old."""
    handed_in = course.submitted(unit)
    return [s for s, one in graded.items() if s in handed_in and _is_newer(handed_in[s] / f"{unit}.ipynb", one)]


def _is_newer(path: Path, result: results.Result) -> bool:
    try:
        data = handin.read(path)
    except handin.Unreadable:
        # Graded, it has the checksum of no bytes; see `plan`. Without any file nothing was handed in again.
        data = b""
        if not os.path.lexists(path) and not any(path.parent.glob(f"{path.name}*{folders.SET_ASIDE}")):
            return False
    return hashlib.sha256(data).hexdigest() != result.submission
