"""The catalogue as one class, graded by one `nbgrader autograde`; beside it, a part of it the conventional way.

The default run takes every third of the hand-ins, those that use up their time left out, and compares few; `make
test-all` takes all.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from helpers import ROOT, require
from hostile import conventional, judge, tricks
from hostile.course import Course
from hostile.model import POINTS, UNIT, Trick
from hostile.reading_shared import LOOPBACK_PORTS

MATERIAL = tricks.material(ROOT)
FULL = os.environ.get("KVLAB_FULL") == "1"
# Each of them runs into a limit of time, in one exercise or in all.
SLOW = {
    "big-power",
    "every-answer-hangs",
    "fork-bomb",
    "limits-lifted",
    "loop-at-once",
    "loop-deaf",
    "loop-deaf-at-once",
    "loop-in-c",
    "memory-hog",
    "memory-mapped",
    "result-endless-list",
    "result-growing-dict",
    "result-huge-int",
    "result-huge-text",
    "result-million-empty",
    "sleep",
    "slow-drip",
    "stops-itself",
}
COMPARED = ("checks-skip-execution", "ast-transformer", "closed-import", "warns-inside", "metadata-stripped")
QUICK = [trick for trick in tricks.all() if trick.name not in SLOW]
ALWAYS = {"honest-wrong", "loop-in-call", *COMPARED}
CHOSEN = tricks.all() if FULL else [t for i, t in enumerate(QUICK) if i % 3 == 0 or t.name in ALWAYS]
# Nothing is there to be graded, so nbgrader makes no row.
EMPTY_HANDED = {"no-notebook"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@dataclass(frozen=True)
class Run:
    """What one run of the class left behind."""

    course: Course
    marks: dict[str, dict[str, float]]
    exit_code: int
    log: str
    changed: list[str]
    heard: list[int]

    @property
    def wrong(self) -> dict[str, float]:
        """What the plain wrong answers earn."""
        return self.marks["honest-wrong"]


@pytest.fixture(scope="module")
def listeners() -> Iterator[list[socket.socket]]:
    """Ears on the ports that the tricks call."""
    ears = []
    for port in LOOPBACK_PORTS:
        ear = socket.socket()
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            ear.bind(("127.0.0.1", port))
        except OSError:  # somebody else listens there already
            ear.close()
            continue
        ear.listen()
        ear.setblocking(False)
        ears.append(ear)
    yield ears
    for ear in ears:
        ear.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, listeners: list[socket.socket]) -> Run:
    require("bubblewrap")
    course = Course(tmp_path_factory.mktemp("hostile"))
    course.build()
    for trick in CHOSEN:
        tricks.place(trick.make(MATERIAL), course.submitted(trick.name))
    options = ["--GradeInJail.case_seconds=4", "--GradeInJail.seconds=20"]
    with judge.elsewhere(course) as changed:
        done = course.nbgrader("autograde", UNIT, "--create", *options)
    return Run(course, course.marks(), done.returncode, done.stderr, changed, _heard(listeners))


def _heard(ears: list[socket.socket]) -> list[int]:
    heard = []
    for ear in ears:
        try:
            ear.accept()[0].close()
        except BlockingIOError:
            continue
        heard.append(ear.getsockname()[1])
    return heard


def test_the_run_ends_well(run: Run) -> None:
    assert run.exit_code == 0, run.log[-3000:]
    assert set(run.marks) == {trick.name for trick in CHOSEN} - EMPTY_HANDED, "everybody has marks"


@pytest.mark.parametrize("trick", [t for t in CHOSEN if t.name not in EMPTY_HANDED], ids=lambda trick: trick.name)
def test_marks_are_what_the_answers_are_worth(run: Run, trick: Trick) -> None:
    marks = run.marks[trick.name]
    assert judge.not_due(trick.expect, marks, run.wrong) == [], run.course.feedback(trick.name)
    if trick.expect.graded is False:
        assert sum(marks.values()) == 0
        assert f"{UNIT} of {trick.name} can't be read: " in run.log


def test_nothing_else_changed(run: Run) -> None:
    assert run.changed == []
    assert judge.left_outside() == []
    assert run.heard == []


def test_the_gradebook_holds_automatic_marks_only(run: Run) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{run.course.folder / 'gradebook.db'}") as book:
        for submission in book.assignment_submissions(UNIT):
            for grade in submission.notebooks[0].grades:
                assert grade.manual_score is None and grade.extra_credit is None


def test_observed_facts_are_told(run: Run) -> None:
    """A flag is a fact in the log or the feedback; it changes no mark."""
    for trick in (t for t in CHOSEN if t.name not in EMPTY_HANDED):
        if asked := judge.words(trick):
            told = "\n".join(line for line in run.log.splitlines() if f"{UNIT} of {trick.name}" in line)
            told += run.course.feedback(trick.name)
            assert any(word in told for word in asked), f"{trick.name}: {trick.expect.flags}\n{told}"


def test_the_conventional_way_pays_cheats_and_loses_honest_work(
    run: Run, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same hand-ins in a plain nbgrader course with asserts and hidden tests in the notebook."""
    plain = conventional.Course(tmp_path_factory.mktemp("conventional"), ROOT, timeout=5)
    plain.build()
    material = plain.material(MATERIAL)
    compared = [t for t in QUICK if not t.harmful] if FULL else tricks.named(*COMPARED)
    for trick in compared:
        plain.submit(trick, material)
    outcome = plain.autograde(*(trick.name for trick in compared))
    paid = {t.name: sum(outcome.marks.get(t.name, {}).values()) for t in compared if not t.honest}
    lost = [t.name for t in compared if t.honest and t.expect.marks == "full" and not _full(outcome.marks.get(t.name))]
    cheats = {name: points for name, points in paid.items() if points > 0}
    with capsys.disabled():
        print(f"\n{'':40} {'conventional':>12} {'ours':>8}")
        for trick in compared:
            theirs = outcome.marks.get(trick.name)
            shown = f"{sum(theirs.values()):g}" if theirs else "not graded"
            ours = sum(run.marks[trick.name].values())
            print(f"{'honest' if trick.honest else 'cheat':6} {trick.name:33} {shown:>12} {ours:8g}")
        print(
            f"cheats paid: {len(cheats)} of {len(paid)}, {sum(cheats.values()):g} points; honest work lost: {len(lost)}"
        )
    assert cheats and lost
    honest = [t for t in compared if t.honest and t.expect.marks == "full"]
    assert all(run.marks[t.name] == POINTS for t in honest)


def _full(marks: dict[str, float] | None) -> bool:
    return marks is not None and all(marks.get(name) == points for name, points in POINTS.items())
