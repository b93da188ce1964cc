"""A class of eighty, without a hand: graded by one command with two jobs, then feedback, export and report.

The short form is this class. `make test-all` grades the whole catalogue of hostile and odd hand-ins in the same way.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import class_of_80
from class_of_80 import Student
from helpers import ROOT, require
from hostile import judge, tricks
from hostile.course import Course
from hostile.model import POINTS, UNIT
from kvgrade import grade, results, seeds

FULL = os.environ.get("KVLAB_FULL") == "1"
LIMITS = ("--case-seconds", "4", "--seconds", "20")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@dataclass(frozen=True)
class Run:
    course: Course
    students: list[Student]
    marks: dict[str, dict[str, float]]
    exit_code: int
    said: str
    changed: list[str]


def class_with_all() -> list[Student]:
    """The class; in the long form with all that the catalogue has besides."""
    students = class_of_80.students(ROOT)
    if not FULL:
        return students
    there = {student.name for student in students}
    material = tricks.material(ROOT)
    others = [Student(t.name, t.make(material), trick=t) for t in tricks.all() if t.name not in there]
    return sorted([*students, *others], key=lambda student: student.name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    require("bubblewrap")
    course = Course(tmp_path_factory.mktemp("class"))
    course.build()
    students = class_with_all()
    class_of_80.hand_in(students, course.folder / "submitted")
    with judge.elsewhere(course) as changed:
        done = course.kvgrade("grade", "--unit", "01", "--jobs", "2", *LIMITS)
    yield Run(course, students, course.marks(), done.returncode, done.stdout + done.stderr, changed)


def test_the_class_has_eighty() -> None:
    assert len(class_of_80.students(ROOT)) == 80


def test_the_run_ends_and_everybody_has_marks(run: Run) -> None:
    without = {s.name for s in run.students} & {"no-notebook"}  # in the long form only
    assert run.exit_code == len(without), run.said[-3000:]
    assert all(f"  not graded: {name}\n" in run.said for name in without)
    assert set(run.marks) == {s.name for s in run.students} - without


def test_perfect_ones_get_all_points(run: Run) -> None:
    perfect = [s.name for s in run.students if s.name.startswith("perfect-")]
    assert len(perfect) == 12
    assert {name: run.marks[name] for name in perfect} == dict.fromkeys(perfect, POINTS)


def test_partly_right_ones_get_what_their_answers_earn(run: Run) -> None:
    """The same answers, marked by themselves, without a class, a notebook or a gradebook around them."""
    seed = seeds.seed(run.course.folder, UNIT)
    partly = [s for s in run.students if s.name.startswith("partly-")]
    assert len(partly) == 12
    for student in partly:
        assert student.answers
        report = grade.grade(
            UNIT, {name: f"# exercise: {name}\n{text}" for name, text in student.answers.items()}, seed
        )
        due = {name: verdict.points for name, verdict in report.verdicts.items()}
        assert run.marks[student.name] == due, student.name
        assert sum(due.values()) < 12


def test_tricks_get_what_is_due(run: Run) -> None:
    for student in run.students:
        if student.trick and student.name != "no-notebook":
            found = judge.not_due(student.trick.expect, run.marks[student.name], _wrong(run))
            assert found == [], f"{student.name}\n{run.course.feedback(student.name)}"


def _wrong(run: Run) -> dict[str, float]:
    """What the material's plain wrong answers earn with this class's seed."""
    if "honest-wrong" not in run.marks:
        answers = {name: f"# exercise: {name}\n{text}" for name, text in tricks.material(ROOT).wrong.items()}
        report = grade.grade(UNIT, answers, seeds.seed(run.course.folder, UNIT))
        run.marks["honest-wrong"] = {name: verdict.points for name, verdict in report.verdicts.items()}
    return run.marks["honest-wrong"]


def test_nothing_else_changed(run: Run) -> None:
    assert run.changed == []
    assert judge.left_outside() == []


def test_nobody_takes_longer_than_its_own_limits(run: Run) -> None:
    """Four exercises of 20 s each, and a jail to start for each of them."""
    for student, result in results.merged(run.course.folder / "results" / UNIT).items():
        assert sum(result.measured.values()) < 2 * (4 * 20 + 60), f"{student}: {result.measured}"


def test_facts_are_flagged(run: Run) -> None:
    merged = results.merged(run.course.folder / "results" / UNIT)
    for student in run.students:
        asked = judge.words(student.trick) if student.trick else []
        if not asked or student.name not in merged:
            continue
        result = merged[student.name]
        told = "\n".join(
            [
                result.unreadable and f"can't be read: {result.unreadable}",
                *result.facts,
                *(mark.text for mark in result.marks.values()),
            ]
        )
        assert any(word in told for word in asked), f"{student.name}: {asked}\n{told}"


def test_feedback_export_and_report_follow(run: Run) -> None:
    said = run.course.kvgrade("feedback", "--unit", "01")
    assert said.returncode == 0, said.stderr
    for student in run.marks.keys() - {"honest-wrong"}:
        page = run.course.folder / "feedback" / student / UNIT / f"{UNIT}.html"
        assert "<script" not in page.read_text(encoding="utf-8"), student
    said = run.course.kvgrade("export", "--unit", "01", "--to", str(run.course.folder / "marks.csv"))
    assert said.returncode == 0, said.stderr
    with (run.course.folder / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [next(row[key] for key in row if "student" in key) for row in rows]
    assert set(names) >= set(run.marks) - {"honest-wrong"}
    said = run.course.kvgrade("report", "--unit", "01", "--to", str(run.course.folder / "report.html"))
    assert said.returncode == 0, said.stderr
    text = (run.course.folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text and not re.search(r"""(src|href)=["']https?:""", text)
    assert run.course.nbgrader("export").returncode == 0
