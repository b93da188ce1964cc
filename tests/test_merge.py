"""The merger against nbgrader's own autograde: the same notebooks and rows; and what it must not touch."""

import csv
import dataclasses
import datetime
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from class_runs import (
    MATERIAL,
    copied,
    database,
    essay,
    hand_in,
    kvgrade,
    notebooks,
    result_files,
    small_class,
)
from helpers import ROOT, require
from hostile.course import Course
from hostile.model import MAIN, POINTS, UNIT, dump, filled
from kvgrade import gradebook, merge, results, seeds
from kvgrade.course import Course as Folder
from kvgrade.gradebook import connect
from kvgrade.job import Job, Options, run
from kvgrade.results import Result
from kvgrade.version import grader_version

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PENALTY = '\nc.AssignLatePenalties.plugin_class = "late_days.LateDays"\nimport sys; sys.path.insert(0, c.CourseDirectory.root)\n'
PLUGIN = '''
from nbgrader.plugins import BasePlugin


class LateDays(BasePlugin):
    """One point a day, begun or whole."""

    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return -(-total_seconds_late // 86400)
'''


def book(course: Course):  # type: ignore[no-untyped-def]
    return connect(f"sqlite:///{course.folder / 'gradebook.db'}", "llm-internals")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A class with a due date and a late penalty, not graded yet."""
    course = Course(tmp_path_factory.mktemp("prepared"))
    course.build()
    small_class(course)
    hand_in(course, "gina", dump(filled(MATERIAL, MATERIAL.right)), timestamp="2026-11-09 00:00:00 +0200")
    hand_in(course, "hans", dump(MATERIAL.notebook), timestamp="2026-11-01 00:00:01 UTC")
    (course.folder / "late_days.py").write_text(PLUGIN)
    with (course.folder / "nbgrader_config.py").open("a") as file:
        file.write(PENALTY)
    with book(course) as open_book:
        open_book.update_or_create_assignment(UNIT, duedate="2026-11-01 00:00:00")
    seeds.seed(course.folder, UNIT)
    return course


@pytest.fixture(scope="module")
def by_nbgrader(prepared: Course, tmp_path_factory: pytest.TempPathFactory) -> Course:
    require("bubblewrap")
    course = copied(prepared, tmp_path_factory.mktemp("nbgrader") / "course")
    done = course.nbgrader("autograde", UNIT, "--create")
    assert done.returncode == 0, done.stderr
    return course


@pytest.fixture(scope="module")
def by_us(prepared: Course, tmp_path_factory: pytest.TempPathFactory) -> Course:
    require("bubblewrap")
    course = copied(prepared, tmp_path_factory.mktemp("kvgrade") / "course")
    done = kvgrade(course, "grade")
    assert done.returncode == 0, done.stderr
    return course


@pytest.fixture
def course(by_us: Course, tmp_path: Path) -> Course:
    """The graded class, to be changed."""
    return copied(by_us, tmp_path / "course")


def standing(course: Course) -> dict[str, Result]:
    return results.merged(Folder(course.folder).results(UNIT))


def put(course: Course, graded: dict[str, Result], **options: bool) -> merge.Merged:
    return merge.merge(Folder(course.folder), UNIT, graded, say=pytest.fail, **options)


def remarked(result: Result, key: str, **points: float) -> Result:
    """A result with other points in some exercises, as after a corrected case."""
    marks = {
        name: dataclasses.replace(mark, points=points[name], text=f"{name}: {points[name]:g} now\n")
        if name in points
        else mark
        for name, mark in result.marks.items()
    }
    return dataclasses.replace(result, key=key * 64, marks=marks)


def edit(course: Course, student: str, change: Callable[..., None]) -> None:
    with book(course) as open_book:
        change(open_book.find_submission_notebook(UNIT, UNIT, student))
        open_book.db.commit()


def test_rows_and_notebooks_are_those_of_nbgrader(by_nbgrader: Course, by_us: Course) -> None:
    theirs, ours = database(by_nbgrader), database(by_us)
    for table in theirs:
        assert ours[table] == theirs[table], table
    assert len(theirs["hand-ins"]) == 8 and len(theirs["grades"]) == 40
    penalties = {row[0]: row[-1] for row in ours["hand-ins"]}
    assert penalties == dict.fromkeys(["anna", "bob", "carl", "dora", "fred"]) | {"emil": 2.0, "gina": 8.0, "hans": 0.0}
    assert notebooks(by_us) == notebooks(by_nbgrader)
    modes = [
        sorted((str(p.relative_to(one.folder)), p.stat().st_mode) for p in (one.folder / "autograded").rglob(MAIN))
        for one in (by_us, by_nbgrader)
    ]
    assert modes[0] == modes[1]


def test_other_files_of_a_learner_do_not_come_along(by_us: Course) -> None:
    folder = by_us.folder / "autograded" / "emil" / UNIT
    assert sorted(path.name for path in folder.iterdir()) == [MAIN, "timestamp.txt"]


def test_nbgraders_other_commands_work_after_it(course: Course) -> None:
    assert "the scores are not divided by sqrt(d)" in course.nbgraders_page("bob")
    scores = course.nbgraders_scores()
    assert scores["anna"] == 12 and scores["emil"] == 2 and scores["gina"] == 4
    before = database(course)
    done = course.nbgrader("autograde", UNIT, "--student", "bob", "--force")
    assert done.returncode == 0, done.stderr
    assert database(course) == before, "nbgrader grades one of them as before"


def test_merging_again_changes_nothing_and_flags_nothing(course: Course) -> None:
    edit(course, "bob", lambda notebook: setattr(notebook.grades[0], "manual_score", 1.5))
    edit(course, "bob", lambda notebook: setattr(notebook.grades[0], "needs_manual_grade", False))
    before, files = database(course), notebooks(course)
    done = put(course, standing(course))
    assert done == merge.Merged([], [], sorted(standing(course)))
    assert database(course) == before and notebooks(course) == files


def test_a_regrade_lists_marks_and_leaves_what_a_person_gave(course: Course) -> None:
    def by_hand(notebook) -> None:  # type: ignore[no-untyped-def]
        for grade in notebook.grades:
            if grade.cell.name == "check-KVCache":
                grade.manual_score, grade.extra_credit, grade.needs_manual_grade = 3.0, 0.5, False
            if grade.cell.name == "answer-which_may_share":
                grade.manual_score, grade.needs_manual_grade = 2.0, False
        for comment in notebook.comments:
            comment.manual_comment = f"about {comment.cell.name}"

    edit(course, "anna", by_hand)
    before = standing(course)
    wanted = before | {
        "anna": remarked(before["anna"], "a", KVCache=2.0),
        "bob": remarked(before["bob"], "b", KVCache=4.0, kv_cache_bytes=0.0),
    }
    files, rows, kept = result_files(course), database(course), notebooks(course)
    foreseen = put(course, wanted, dry_run=True)
    assert (result_files(course), database(course), notebooks(course)) == (files, rows, kept), (
        "a dry run writes nothing"
    )
    for result in wanted.values():
        results.save(Folder(course.folder).results(UNIT), result)
    done = put(course, wanted)
    assert done == foreseen and done.written == ["anna", "bob"]
    old = {name: mark.points for name, mark in before["bob"].marks.items()}
    listed = [(c.student, c.exercise, c.before, c.after) for c in done.changes]
    assert listed == [
        ("anna", "KVCache", 4.0, 2.0),
        ("bob", "KVCache", old["KVCache"], 4.0),
        ("bob", "kv_cache_bytes", old["kv_cache_bytes"], 0.0),
    ]
    assert done.changes[1].diagnosis_before == "K for V", done.changes
    with (Folder(course.folder).results(UNIT) / "changes.csv").open() as file:
        table = list(csv.reader(file))
    assert [(r[0], r[1], float(r[2]), float(r[3])) for r in table[1:]] == listed
    grades = {row[:2]: row[3:] for row in database(course)["grades"]}
    assert grades["anna", "check-KVCache"] == (2.0, 3.0, 0.5, True), "to be looked at again"
    assert grades["anna", "check-cached_attention"] == (4.0, None, None, False)
    assert grades["anna", "answer-which_may_share"] == (None, 2.0, None, False), "nothing changed in this cell"
    assert grades["bob", "check-KVCache"] == (4.0, None, None, False)
    assert all(row[3] == f"about {row[1]}" for row in database(course)["comments"] if row[0] == "anna")
    assert standing(course) == wanted
    assert "KVCache: 2 now" in course.feedback("anna")


def test_a_new_time_of_handing_in_is_taken_over(course: Course) -> None:
    (course.submitted("emil") / "timestamp.txt").write_text("2026-11-04 12:00:00 UTC")
    done = put(course, standing(course))
    assert not done.written and done.updated == ["emil"]
    (row,) = [row for row in database(course)["hand-ins"] if row[0] == "emil"]
    assert row[1] == "2026-11-04 12:00:00" and row[-1] == 4.0, "no more than the score"
    assert (course.folder / "autograded" / "emil" / UNIT / "timestamp.txt").read_text().startswith("2026-11-04")
    edit(course, "emil", lambda notebook: setattr(notebook.assignment, "extension", datetime.timedelta(days=5)))
    put(course, standing(course))
    (row,) = [row for row in database(course)["hand-ins"] if row[0] == "emil"]
    assert row[-1] is None


def test_a_gradebook_is_made_where_no_environment_is_activated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nbgrader looks for `alembic` on PATH then."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    connect(f"sqlite:///{tmp_path / 'gradebook.db'}").close()
    assert (tmp_path / "gradebook.db").is_file() and os.environ["PATH"] == "/usr/bin:/bin"


def test_an_empty_gradebook_is_filled_from_the_release(course: Course, by_us: Course) -> None:
    (course.folder / "gradebook.db").unlink()
    graded, listed = standing(course), Folder(course.folder).results(UNIT) / results.MERGED
    with pytest.raises(RuntimeError, match=r"no longer holds 8 hand-ins that were merged.*delete .*merged\.json"):
        put(course, graded)
    assert not (course.folder / "gradebook.db").exists(), "a copy can be put back"
    listed.unlink()
    done = put(course, graded)
    assert len(done.written) == 8 and not done.changes
    now, before = database(course), database(by_us)
    due = [row for row in before["cells"] if row[0] == UNIT and len(row) == 3 and row[2] == "llm-internals"]
    assert [r for r in now["cells"] if r[1:] != ("None", due[0][2])] == [r for r in before["cells"] if r not in due]
    assert now["grades"] == before["grades"] and now["comments"] == before["comments"]
    assert now["students"] == before["students"]


def test_a_gradebook_of_another_release_is_refused(course: Course) -> None:
    from nbgrader.api import GradeCell

    with book(course) as open_book:
        open_book.db.query(GradeCell).filter(GradeCell.name == "check-KVCache").one().name = "check-other"
        open_book.db.commit()
    with pytest.raises(RuntimeError, match=f"nbgrader generate_assignment {UNIT} --force"):
        put(course, standing(course))


def test_a_removed_copy_or_student_is_made_again(course: Course) -> None:
    rows, files = database(course), notebooks(course)
    shutil.rmtree(course.folder / "autograded" / "bob")
    with book(course) as open_book:
        open_book.remove_student("carl")
    done = put(course, standing(course))
    assert done.written == ["bob", "carl"] and not done.changes
    assert database(course) == rows and notebooks(course) == files


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_killed_merge_leaves_whole_hand_ins_and_is_finished(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before = standing(course)
    wanted = {
        student: remarked(result, str(number), KVCache=1.0) for number, (student, result) in enumerate(before.items())
    }
    for result in wanted.values():
        results.save(Folder(course.folder).results(UNIT), result)
    whole = copied(course, tmp_path / "whole")
    put(whole, wanted)

    calls = []

    def killed(*args: object) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        original(*args)

    monkeypatch.setattr(merge, "BATCH", 3)
    if moment == "after the commit":
        original = merge._keep
        monkeypatch.setattr(merge, "_keep", killed)
    else:
        original = gradebook.HandIn.write

        def write(self: gradebook.HandIn, rows: gradebook.Rows, same: set[str]) -> None:
            if len(calls) == 4:
                raise KeyboardInterrupt
            calls.append(rows)
            original(self, rows, same)

        monkeypatch.setattr(gradebook.HandIn, "write", write)
    with pytest.raises(KeyboardInterrupt):
        put(course, wanted)
    scores = {row[0]: row[3] for row in database(course)["grades"] if row[1] == "check-KVCache"}
    changed = {student for student, score in scores.items() if score == 1.0}
    assert len(changed) == (3 if moment == "before the commit" else 6)
    monkeypatch.undo()
    done = put(course, wanted)
    assert {c.student for c in done.changes} == set(wanted), "the list is that of the whole regrade"
    assert database(course) == database(whole)
    assert notebooks(course) == notebooks(whole)
    assert result_files(course) == result_files(whole)


def test_some_exercises_are_merged_and_the_others_stay(course: Course) -> None:
    hand_in(course, "bob", dump(filled(MATERIAL, MATERIAL.right)))
    before = standing(course)["bob"]
    grades = {row[:2]: row[3:] for row in database(course)["grades"]}
    done = kvgrade(course, "grade", "--student", "bob", "--exercise", "KVCache")
    assert done.returncode == 0, done.stderr
    after = standing(course)["bob"]
    assert after.marks["KVCache"].points == 4.0 and after.answers["KVCache"].endswith(MATERIAL.right["KVCache"])
    for name in set(POINTS) - {"KVCache"}:
        assert after.marks[name] == before.marks[name] and after.answers[name] == before.answers[name]
    now = {row[:2]: row[3:] for row in database(course)["grades"]}
    assert {place for place in now if now[place] != grades[place]} == {("bob", "check-KVCache")}
    again = kvgrade(course, "grade", "--student", "bob", "--exercise", "KVCache")
    assert "0 graded, 1 had a result" in again.stdout and "0 written, 1 as before" in again.stdout
    assert "1 handed in again, 1 mark changed" in done.stdout and "changed" not in again.stdout
    assert not (course.folder / "results" / UNIT / "changes.csv").exists(), "that is for a regrade of the same file"
    whole = kvgrade(course, "grade", "--student", "bob")
    assert "1 had a result" in whole.stdout, "gina's hand-in is the same"
    assert "1 handed in again, 3 marks changed" in whole.stdout
    assert standing(course)["bob"].points == 12


def test_a_class_larger_than_a_batch(prepared: Course, tmp_path: Path) -> None:
    """Synthetic: one real result under many names."""
    course = copied(prepared, tmp_path / "course")
    job = Job(
        UNIT,
        dump(essay("Because.")),
        "",
        (ROOT / "notebooks" / MAIN).read_bytes(),
        1,
        grader_version(UNIT),
        options=Options(isolated=False),
    )
    one = run(job)
    students = [f"s{number:03}" for number in range(merge.BATCH + 20)]
    results.save(Folder(course.folder).results(UNIT), one)
    done = put(course, dict.fromkeys(students, one))
    assert done.written == students and len(standing(course)) == len(students)
    rows = database(course)
    assert len(rows["grades"]) == 5 * len(students) and len({row[1:] for row in rows["grades"]}) == 5
    assert len({data for data in notebooks(course).values()}) == 1


def test_a_locked_gradebook_is_told(course: Course) -> None:
    import sqlite3

    before = standing(course)
    other = sqlite3.connect(course.folder / "gradebook.db")
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(RuntimeError, match="is formgrader or another program writing to it"):
            put(course, {"bob": remarked(before["bob"], "b", KVCache=4.0)})
    finally:
        other.close()
    assert put(course, before).written == []
