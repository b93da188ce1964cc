"""A small graded class in a folder: nbgrader's gradebook, hand-ins and our results, with no command of nbgrader run."""

import dataclasses
import datetime
import hashlib
import json
import shutil
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from helpers import ROOT, program, require
from hostile import tricks
from hostile.model import EXERCISES, UNIT, Material, dump, filled
from hostile.model import POINTS as AUTOMATIC
from kvgrade import feedback, grade, handin, results
from kvgrade.course import Course
from kvgrade.gradebook import connect

QUESTION = "which_may_share"
POINTS = {**AUTOMATIC, QUESTION: 3.0}
SEED = 4711
DUE = datetime.datetime(2026, 11, 2, 12, 0)
NAMES = {
    "anna": ("Anna", "Berg", "anna@example.org"),
    "bob": ("Bob", "=HYPERLINK(1)", "bob@example.org"),
    "carl": ("Carl", "Łąka", "carl@example.org"),
    "dora": ("Dora", "", ""),
    "emil": ("Emil", "Öst", "emil@example.org"),
    "zoe": ("Zoë", "None", "zoe@example.org"),
}
ESSAY = "Those whose prefix is equal."
MATERIAL: Material = tricks.material(ROOT)


def hand_in(answers: dict[str, str], essay: str = "") -> bytes:
    """A notebook with these answers, and perhaps the written one."""
    notebook = filled(MATERIAL, answers)
    if essay:
        next(c for c in notebook["cells"] if QUESTION in str(c["metadata"]))["source"] = essay
    return dump(notebook)


HAND_INS = {
    "anna": hand_in(dict(MATERIAL.right), ESSAY),
    "bob": hand_in(dict(MATERIAL.wrong), ESSAY),
    "carl": hand_in({}),
    "dora": b"this is no notebook",
    "emil": hand_in({"KVCache": MATERIAL.right["KVCache"], "kv_cache_bytes": "def kv_cache_bytes(*a):\n    return 1"}),
}


def result(student: str, data: bytes, isolated: bool = True) -> results.Result:
    """What the grader makes of a hand-in. It runs without a jail: the answers are our own."""
    released = json.loads((ROOT / "notebooks" / f"{UNIT}.ipynb").read_text(encoding="utf-8"))
    found = handin.collect(data, released)
    report = grade.grade(UNIT, {k: v for k, v in found.answers.items() if k in EXERCISES}, SEED, isolated=False)
    report = dataclasses.replace(report, isolated=isolated)
    marks = {
        name: results.Mark(
            verdict.points,
            verdict.possible,
            verdict.note,
            [results.Group(g.name, g.points, g.right, g.mistake, g.why, g.seen) for g in verdict.groups],
            feedback.text(report, name, found.facts, found.unreadable),
        )
        for name, verdict in report.verdicts.items()
    }
    checksum = hashlib.sha256(data).hexdigest()
    facts = [*found.facts, *report.facts]
    key = hashlib.sha256((student + checksum).encode()).hexdigest()
    seconds = {"seconds": round(report.seconds, 3)}
    return results.Result(
        key, UNIT, checksum, "test", isolated, found.unreadable, dict(found.answers), facts, marks, seconds
    )


def stands(course: Course, found: dict[str, results.Result]) -> None:
    """Save results and say that they stand in the gradebook."""
    for one in found.values():
        results.save(course.results(UNIT), one)
    keys = {student: one.key for student, one in found.items()}
    results.write_atomic(course.results(UNIT) / results.MERGED, json.dumps(keys).encode())


def make(folder: Path) -> Course:
    """anna: all right, marked by hand, extra credit. bob: all wrong, written answer not marked. carl: nothing done.
    dora: unreadable. emil: partly right, one mark changed by hand, late with a penalty. zoe: no hand-in."""
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "grading" / "nbgrader_config.py", folder)
    (folder / "release" / UNIT).mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / f"{UNIT}.ipynb", folder / "release" / UNIT)
    for student, data in HAND_INS.items():
        path = folder / "submitted" / student / UNIT / f"{UNIT}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    course = Course.find(folder)
    found = {student: result(student, data) for student, data in HAND_INS.items()}
    stands(course, found)
    with connect(course.db_url, course.directory.course_id) as book:
        book.add_assignment(UNIT, duedate=DUE)
        book.add_notebook(UNIT, UNIT)
        for name, points in POINTS.items():
            written = name == QUESTION
            kind, cell = ("markdown", f"answer-{name}") if written else ("code", f"check-{name}")
            book.add_grade_cell(cell, UNIT, UNIT, max_score=points, cell_type=kind)
            book.add_solution_cell(f"answer-{name}", UNIT, UNIT)
        for student, (first, last, email) in NAMES.items():
            book.add_student(student, first_name=first, last_name=last, email=email)
        for student, one in found.items():
            late = datetime.timedelta(hours=30 if student == "emil" else -5)
            book.add_submission(UNIT, student, timestamp=DUE + late)
            for name in EXERCISES:
                grade_ = book.find_grade(f"check-{name}", UNIT, UNIT, student)
                grade_.auto_score, grade_.needs_manual_grade = one.marks[name].points, False
            if QUESTION not in one.answers:
                grade_ = book.find_grade(f"answer-{QUESTION}", UNIT, UNIT, student)
                grade_.auto_score, grade_.needs_manual_grade = 0.0, False
        by_hand(book, "anna", f"answer-{QUESTION}", 2.5)
        book.find_grade("check-KVCache", UNIT, UNIT, "anna").extra_credit = 0.5
        book.find_comment(f"answer-{QUESTION}", UNIT, UNIT, "anna").manual_comment = "Well put,\nbut <b>why</b>?"
        by_hand(book, "emil", "check-cached_attention", 1.0)
        book.find_submission_notebook(UNIT, UNIT, "emil").late_submission_penalty = 1.5
        book.db.commit()
    return course


def once(factory: pytest.TempPathFactory) -> Path:
    """The class, made at the first call of a run of the tests. Whoever changes it takes a copy."""
    folder = factory.getbasetemp() / "graded_class"
    return folder if folder.is_dir() else make(folder).root


def by_hand(book: Gradebook, student: str, cell: str, points: float) -> None:
    """Mark one cell as a person does in formgrader."""
    mark = book.find_grade(cell, UNIT, UNIT, student)
    mark.manual_score, mark.needs_manual_grade = points, False
    book.db.commit()


def axe(paths: list[Path]) -> list[str]:
    """Serious findings of axe-core on some pages, in light and in dark, and requests that a page made."""
    require("chromium")
    require("playwright")
    require("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--headless=new", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=arguments)
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme)
            page.on("request", lambda r: found.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
            for path in paths:
                page.goto(path.as_uri())
                page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
                for one in Axe().run(page).response["violations"]:
                    if one["impact"] in ("serious", "critical"):
                        found.append(f"{path.name}, {scheme}: {one['id']} at {[n['target'] for n in one['nodes']]}")
        browser.close()
    return found
