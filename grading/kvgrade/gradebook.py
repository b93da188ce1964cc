"""nbgrader's gradebook in bulk: all rows of a unit are read at once and written in few commits.

nbgrader's own `find_…` and `update_or_create_…` ask and commit for every cell of every hand-in. The rows written here
are the same (`preprocessors/saveautogrades.py`, `preprocessors/latesubmissions.py`, `api.Gradebook.add_submission`);
a test compares them.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import seeds
from .course import Course, CourseError
from .results import NO_ROOM


@dataclass(frozen=True)
class Rows:
    """What nbgrader keeps of one graded notebook, by grade id: automatic scores, automatic comments."""

    scores: dict[str, float | None]
    comments: dict[str, str | None]


def rows(notebook: Any, leave: Sequence[str] = ()) -> Rows:
    """The rows of a graded notebook, read from its cells as nbgrader's SaveAutoGrades does; not those in `leave`."""
    from nbgrader import utils

    scores: dict[str, float | None] = {}
    comments: dict[str, str | None] = {}
    for cell in notebook["cells"]:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in leave:
            continue
        if utils.is_grade(cell):
            scores[name] = utils.determine_grade(cell)[0]
        if utils.is_solution(cell) or utils.is_task(cell):
            untouched = cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell)
            comments[name] = "No response." if untouched and not utils.is_task(cell) else None
    return Rows(scores, comments)


@dataclass
class HandIn:
    """The rows of one student, as nbgrader's objects; grades and comments by grade id."""

    submission: Any
    notebook: Any
    grades: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, Any] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """nbgrader's total of the notebook, before a late penalty (`api.Grade.score`)."""
        total = 0.0
        for grade in self.grades.values():
            given = grade.manual_score if grade.manual_score is not None else grade.auto_score
            total += 0.0 if given is None else given + (grade.extra_credit or 0.0)
        return total

    def has(self, wanted: Rows) -> bool:
        """Whether these automatic marks and comments stand there already."""
        scores = all(n in self.grades and self.grades[n].auto_score == score for n, score in wanted.scores.items())
        return scores and all(
            n in self.comments and self.comments[n].auto_comment == text for n, text in wanted.comments.items()
        )

    def write(self, wanted: Rows, same: Collection[str] = ()) -> None:
        """Set automatic marks and comments. What a person gave stays.

        A mark by hand is to be looked at again, as in nbgrader, but where nothing has changed that it was given for:
        the automatic mark, and the answer, which is as before in the cells whose grade ids are in `same`.
        """
        for name, score in wanted.scores.items():
            grade = self.grades[name]
            if grade.manual_score is None or grade.auto_score != score or name not in same:
                grade.needs_manual_grade = grade.manual_score is not None or score is None
            grade.auto_score = score
        for name, text in wanted.comments.items():
            self.comments[name].auto_comment = text


class Unit:
    """The rows of one unit in an open gradebook."""

    def __init__(self, book: Any, unit: str) -> None:
        from nbgrader import api

        self.db = book.db
        self._assignment = book.find_assignment(unit)
        self._notebooks = list(self._assignment.notebooks)
        (self._own,) = [notebook for notebook in self._notebooks if notebook.name == unit]
        cells = self.db.query(api.BaseCell).filter(api.BaseCell.notebook_id.in_([n.id for n in self._notebooks])).all()
        self._cells = {n.id: [cell for cell in cells if cell.notebook_id == n.id] for n in self._notebooks}
        self._names = {cell.id: cell.name for cell in cells}
        self.students = {row.id for row in self.db.query(api.Student.id)}
        self.hand_ins: dict[str, HandIn] = self._load()

    @property
    def graded(self) -> set[str]:
        """The grade ids of the unit's notebook."""
        from nbgrader import api

        return {c.name for c in self._cells[self._own.id] if isinstance(c, api.GradeCell | api.TaskCell)}

    def _load(self) -> dict[str, HandIn]:
        from nbgrader import api

        submissions = self.db.query(api.SubmittedAssignment).filter_by(assignment_id=self._assignment.id).all()
        notebooks = {
            row.assignment_id: row for row in self.db.query(api.SubmittedNotebook).filter_by(notebook_id=self._own.id)
        }
        found = {one.id: HandIn(one, notebooks[one.id]) for one in submissions if one.id in notebooks}
        by_notebook = {hand_in.notebook.id: hand_in for hand_in in found.values()}
        for model, place in ((api.Grade, "grades"), (api.Comment, "comments")):
            query = self.db.query(model).join(api.SubmittedNotebook, api.SubmittedNotebook.id == model.notebook_id)
            for row in query.filter(api.SubmittedNotebook.notebook_id == self._own.id):
                getattr(by_notebook[row.notebook_id], place)[self._names[row.cell_id]] = row
        return {hand_in.submission.student_id: hand_in for hand_in in found.values()}

    def add(self, student: str) -> HandIn:
        """Rows for a student who has none: what nbgrader's `add_submission` makes, the student too if need be."""
        from nbgrader import api

        if student not in self.students:
            self.db.add(api.Student(id=student))
            self.students.add(student)
        submission = api.SubmittedAssignment(id=api.new_uuid(), assignment_id=self._assignment.id, student_id=student)
        self.db.add(submission)
        for notebook in self._notebooks:
            own = api.SubmittedNotebook(id=api.new_uuid(), notebook_id=notebook.id, assignment_id=submission.id)
            hand_in = HandIn(submission, own)
            for cell in self._cells[notebook.id]:
                if isinstance(cell, api.GradeCell | api.TaskCell):
                    hand_in.grades[cell.name] = api.Grade(cell_id=cell.id, notebook_id=own.id)
                if isinstance(cell, api.SolutionCell | api.TaskCell):
                    hand_in.comments[cell.name] = api.Comment(cell_id=cell.id, notebook_id=own.id)
            self.db.add_all([own, *hand_in.grades.values(), *hand_in.comments.values()])
            if notebook is self._own:
                self.hand_ins[student] = hand_in
        return self.hand_ins[student]

    def seconds_late(self, hand_in: HandIn) -> float:
        """As `api.SubmittedAssignment.total_seconds_late`."""
        due, timestamp = self._assignment.duedate, hand_in.submission.timestamp
        if due is None or timestamp is None:
            return 0.0
        due += hand_in.submission.extension or datetime.timedelta()
        return max(0.0, float((timestamp - due).total_seconds()))


def late_penalty(hand_in: HandIn, seconds: float, plugin: Any) -> float | None:
    """The points that lateness costs by nbgrader's plugin: at most the score, None when there is none to note."""
    if seconds <= 0:
        return None
    penalty = plugin.late_submission_penalty(hand_in.submission.student_id, hand_in.score, seconds)
    return None if penalty is None else max(0.0, min(float(penalty), hand_in.score))


def plugin(settings: Any) -> Any:
    """The late-submission plugin that the course's settings name."""
    from nbgrader.preprocessors import AssignLatePenalties

    step = AssignLatePenalties(config=settings)
    step.init_plugin()
    return step.plugin_inst


def path(course: Course) -> Path | None:
    """The gradebook's file; None where it is no SQLite one."""
    name = course.db_url.removeprefix("sqlite:///")
    return Path(name) if name != course.db_url else None


def where(course: Course) -> str:
    """The class's own gradebook, as it is named in messages, also in those of a dry run on a copy."""
    own = replace(course, aside=None)
    return str(path(own) or own.db_url)


@contextmanager
def told(course: Course) -> Iterator[None]:
    """For work on the gradebook: that it is held by a program, damaged or without room is told in one sentence."""
    from sqlalchemy.exc import DatabaseError

    try:
        yield
    except (DatabaseError, sqlite3.DatabaseError) as error:
        why = str(error.orig) if isinstance(error, DatabaseError) else str(error)
        if "disk is full" in why:
            text = f"The disk is full, {where(course)} could not be written: {NO_ROOM}"
        elif "not a database" in why or "malformed" in why:
            text = f"The gradebook {where(course)} is damaged ({why}): restore your copy of it, then run this again."
        else:
            text = (
                f"The gradebook {where(course)} can't be used ({why}): is formgrader or another program writing to it? Results "
                "are kept; run this again. After an upgrade of nbgrader, first run `nbgrader db upgrade`."
            )
        raise RuntimeError(text) from None


def connect(address: str, course_id: str = "default_course") -> Any:
    """nbgrader's Gradebook, to be closed after use; made where there is none.

    For a new one nbgrader calls `alembic` by name: it is found although the environment is not activated.
    """
    from nbgrader.api import Gradebook

    before = os.environ.get("PATH")
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), before or os.defpath])
    try:
        return Gradebook(address, course_id)
    finally:
        if before is None:
            del os.environ["PATH"]
        else:
            os.environ["PATH"] = before


@contextmanager
def opened(course: Course) -> Iterator[Any]:
    """nbgrader's gradebook, for bulk work. Raises RuntimeError, see `told`."""
    with told(course), connect(course.db_url, course.directory.course_id) as book:
        book.db().expire_on_commit = False  # else each commit makes every row be read again, one by one
        with book.db.no_autoflush:
            yield book


@contextmanager
def set_apart(course: Course) -> Iterator[Course]:
    """The class for a dry run: with copies of its gradebook and seeds, in a folder that goes away again.

    Raises CourseError for a gradebook that is no SQLite file.
    """
    own = path(course)
    if own is None:
        raise CourseError(f"A dry run works on a copy of the gradebook, and {course.db_url} is no file to copy.")
    with tempfile.TemporaryDirectory(prefix="kvgrade-") as folder:
        aside = replace(course, aside=Path(folder))
        if own.is_file():
            with (
                told(course),
                contextlib.closing(sqlite3.connect(f"{own.as_uri()}?mode=ro", uri=True)) as source,
                contextlib.closing(sqlite3.connect(str(path(aside)))) as copy,
            ):
                source.isolation_level = None
                source.execute("BEGIN")
                source.execute("SELECT name FROM sqlite_master").fetchall()  # a lock is told; `backup` waits for ever
                source.backup(copy)
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(course.root / seeds.NAME, folder)
        yield aside


def read(released: Path) -> Any:
    """The released notebook as nbformat's object. Raises CourseError when it is damaged."""
    import nbformat

    try:
        return nbformat.read(released, as_version=4)
    except Exception as error:  # nbformat, jsonschema and json each have their own
        raise CourseError(f"{released} is no notebook ({type(error).__name__}): restore your copy of it.") from None


def ensure_unit(course: Course, unit: str, released: Path) -> None:
    """Make the gradebook know a released unit, as nbgrader's release step does, where it does not know it yet.

    Raises CourseError when it knows the unit with other graded cells than the released notebook has.
    """
    from nbgrader.api import MissingEntry
    from nbgrader.preprocessors import SaveCells

    notebook = read(released)
    with opened(course) as book:
        try:
            known = Unit(book, unit).graded
        except (MissingEntry, ValueError):
            book.update_or_create_assignment(unit)
            known = None
    if known is None:
        about = {"notebook": unit, "assignment": unit, "db_url": course.db_url}
        with told(course):
            SaveCells().preprocess(notebook, {"nbgrader": about})
        return
    have = {c.metadata.nbgrader.grade_id for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade")}
    if known != have:
        raise CourseError(
            f"The gradebook has other graded cells of {unit} than the released notebook: run "
            f"`nbgrader generate_assignment {unit} --force` in {course.root}."
        )


__all__ = [
    "HandIn",
    "Rows",
    "Unit",
    "ensure_unit",
    "late_penalty",
    "opened",
    "path",
    "plugin",
    "read",
    "rows",
    "set_apart",
    "told",
    "where",
]
