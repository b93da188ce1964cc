"""What stands in the gradebook, read in bulk: points, marks by hand, comments and late penalties of a whole class.

Totals are nbgrader's: a mark by hand replaces the automatic one, extra credit is added, the late penalty is taken off,
and no total is below 0 (nbgrader's `plugins/export.py` and the properties of `nbgrader.api.Grade`).
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import gradebook as of_class
from .course import Course, CourseError
from .units import find_units, read_unit


@dataclass(frozen=True)
class Place:
    """A cell of the released notebook that carries points. `written`: a question that a person marks."""

    name: str
    written: bool
    possible: float


@dataclass(frozen=True)
class Score:
    """One graded cell of one hand-in. `open`: it waits for a person, to be marked or to be looked at after a regrade;
    `written`: it is a question that only a person marks."""

    auto: float | None = None
    by_hand: float | None = None
    extra: float | None = None
    open: bool = True
    comment: str = ""
    written: bool = True

    @property
    def counts(self) -> float:
        """What it gives: the mark by hand where there is one, with extra credit."""
        given = self.by_hand if self.by_hand is not None else self.auto
        return 0.0 if given is None else given + (self.extra or 0.0)


@dataclass(frozen=True)
class Standing:
    """One hand-in in the gradebook. `scores` by exercise or question; `late` in seconds; `submitted` in UTC."""

    student: str
    scores: Mapping[str, Score] = field(default_factory=dict)
    penalty: float = 0.0
    late: float = 0.0
    submitted: datetime.datetime | None = None

    @property
    def automatic(self) -> float:
        """Points that the grader gave and nobody replaced."""
        return sum(s.auto for s in self.scores.values() if s.by_hand is None and s.auto is not None)

    @property
    def manual(self) -> float:
        """Points that a person gave."""
        return sum(s.by_hand for s in self.scores.values() if s.by_hand is not None)

    @property
    def extra(self) -> float:
        """Extra credit. Like nbgrader, none where there is nothing that it could be added to."""
        return sum(s.counts for s in self.scores.values()) - self.automatic - self.manual

    @property
    def total(self) -> float:
        return max(0.0, sum(score.counts for score in self.scores.values()) - self.penalty)

    @property
    def unmarked(self) -> list[str]:
        """Exercises and questions that nobody has marked: the total is not known yet."""
        return [n for n, s in self.scores.items() if s.by_hand is None and (s.open or s.auto is None)]

    @property
    def ungraded(self) -> list[str]:
        """Those of `unmarked` that wait for the grader, not for a person: it was told to grade other exercises."""
        return [n for n, s in self.scores.items() if s.by_hand is None and s.auto is None and not s.written]

    @property
    def to_confirm(self) -> list[str]:
        """Those with a mark by hand that nbgrader wants looked at again, since the rest was graded anew. It counts."""
        return [name for name, score in self.scores.items() if score.open and score.by_hand is not None]


@dataclass(frozen=True)
class Person:
    """A student as the gradebook knows them. Everything but the id may be empty."""

    id: str
    first: str = ""
    last: str = ""
    email: str = ""


def chosen(course: Course, wanted: Sequence[str]) -> list[str]:
    """Names of the units asked for, by name or number; by default all with hand-ins. Raises CourseError for none."""
    if wanted:
        return sorted({course.unit(word) for word in wanted})
    found = [path.stem for path in find_units() if course.submitted(path.stem) or course.results(path.stem).is_dir()]
    if not found:
        raise CourseError(f"There are no hand-ins in {course.root}: put them into submitted/, or name a unit: --unit.")
    return found


def places(course: Course, unit: str) -> list[Place]:
    """The cells of the released notebook that carry points, in order."""
    notebook = json.loads(course.released(unit).read_text(encoding="utf-8"))
    found = []
    for cell in notebook["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("grade"):
            name = str(marks["grade_id"]).removeprefix("check-").removeprefix("answer-")
            found.append(Place(name, bool(marks.get("solution")), float(marks["points"])))
    return found


def heading(unit: str) -> str:
    """The title of a unit, as its notebook has it; its name where the unit is not here any more."""
    try:
        cells = read_unit(find_units([unit])[0]).cells
    except ValueError:
        return unit
    lines = (line for cell in cells if cell.cell_type == "markdown" for line in cell.source.splitlines())
    return next((line[2:].strip() for line in lines if line.startswith("# ")), unit)


def people(course: Course) -> dict[str, Person]:
    """All students of the gradebook, sorted by id."""
    with gradebook(course) as book:
        rows = [Person(s.id, s.first_name or "", s.last_name or "", s.email or "") for s in book.students]
    return {person.id: person for person in sorted(rows, key=lambda person: person.id)}


def standings(course: Course, unit: str) -> dict[str, Standing]:
    """What stands in the gradebook for a unit, by student, sorted. Empty when nothing of it was graded."""
    from nbgrader import api

    order = [place.name for place in places(course, unit)]
    scores: dict[str, dict[str, Score]] = {}
    with gradebook(course) as book:
        hand_ins = (
            book.db.query(api.SubmittedAssignment, api.SubmittedAssignment.late_submission_penalty)
            .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
            .filter(api.Assignment.name == unit)
            .all()
        )
        comments = {(row.student_id, row.name): row.comment or "" for row in _rows(book, unit, api.Comment, "comment")}
        for row in _rows(book, unit, api.Grade, "auto_score", "manual_score", "extra_credit", "needs_manual_grade"):
            name = str(row.name).removeprefix("check-").removeprefix("answer-")
            comment = comments.get((row.student_id, f"answer-{name}"), "")
            written = not str(row.name).startswith("check-")
            to_do = bool(row.needs_manual_grade)
            score = Score(row.auto_score, row.manual_score, row.extra_credit, to_do, comment, written)
            scores.setdefault(row.student_id, {})[name] = score
        found = {
            one.student_id: Standing(
                one.student_id,
                _ordered(scores.get(one.student_id, {}), order),
                float(penalty or 0.0),
                float(one.total_seconds_late),
                one.timestamp,
            )
            for one, penalty in hand_ins
        }
    return dict(sorted(found.items()))


@contextmanager
def gradebook(course: Course) -> Iterator[Any]:
    """nbgrader's gradebook, to read. Raises CourseError where there is none yet, in place of making an empty one.

    Raises RuntimeError for one that can't be used, with the sentence of `grade`.
    """
    path = of_class.path(course)
    if path and not path.is_file():
        raise CourseError(f"There is no gradebook in {course.root} yet: run `python -m kvgrade grade` first.")
    with of_class.told(course), of_class.connect(course.db_url, course.directory.course_id) as book:
        yield book


def _rows(book: Any, unit: str, model: Any, *columns: str) -> Any:
    """(student_id, name of the cell, columns) of each grade or comment of a unit."""
    from nbgrader import api

    return (
        book.db.query(
            api.SubmittedAssignment.student_id, api.BaseCell.name, *(getattr(model, column) for column in columns)
        )
        .select_from(model)
        .join(api.BaseCell, api.BaseCell.id == model.cell_id)
        .join(api.SubmittedNotebook, api.SubmittedNotebook.id == model.notebook_id)
        .join(api.SubmittedAssignment, api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id)
        .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
        .filter(api.Assignment.name == unit)
    )


def _ordered(scores: Mapping[str, Score], order: Sequence[str]) -> dict[str, Score]:
    known = [name for name in order if name in scores]
    return {name: scores[name] for name in [*known, *sorted(set(scores) - set(known))]}
