"""`python -m kvgrade grade` as an instructor runs it: once, again, in parts, interrupted, killed."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from class_runs import (
    MATERIAL,
    command,
    copied,
    database,
    environment,
    hand_in,
    kvgrade,
    notebooks,
    result_files,
    small_class,
)
from helpers import require
from hostile.course import Course
from hostile.model import POINTS, UNIT, dump, filled
from kvgrade import plan, pool
from kvgrade.__main__ import main
from kvgrade.locks import held

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

RIGHT = dump(filled(MATERIAL, MATERIAL.right))
ENDLESS = "def positions_processed(*args, **kwargs):\n    while True:\n        pass\n"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Course:
    require("bubblewrap")
    course = Course(tmp_path_factory.mktemp("released"))
    course.build()
    plan.seeds.seed(course.folder, UNIT)
    return course


@pytest.fixture
def course(released: Course, tmp_path: Path) -> Course:
    return copied(released, tmp_path / "course")


def graded(done: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    """(graded, had a result) of a run that graded all hand-ins."""
    assert done.returncode == 0, done.stdout + done.stderr
    return counted(done)


def counted(done: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    found = re.search(r"(\d+) graded, (\d+) had a result", done.stdout)
    assert found, done.stdout
    return int(found[1]), int(found[2])


def test_a_class_is_graded_once_and_what_is_new_again(course: Course) -> None:
    small_class(course)
    hand_in(course, "zoe", RIGHT)
    hand_in(course, "yan", RIGHT)
    two = hand_in(course, "tom", RIGHT)
    (two / f"{UNIT}.ipynb").rename(two / "one.ipynb")
    (two / "two.ipynb").write_bytes(RIGHT)
    renamed = hand_in(course, "paul", dump(filled(MATERIAL, {"KVCache": MATERIAL.right["KVCache"]})))
    (renamed / f"{UNIT}.ipynb").rename(renamed / "hw (1).ipynb")
    (hand_in(course, "nils", b"") / f"{UNIT}.ipynb").unlink()

    done = kvgrade(course, "grade", "--verbose", "--jobs", "2")
    assert counted(done) == (9, 0)
    assert done.returncode == 1 and "  not graded: nils, tom\n" in done.stdout
    marks = course.marks()
    assert marks["zoe"] == marks["yan"] == marks["anna"] == POINTS
    assert marks["paul"] == marks["emil"] == dict.fromkeys(POINTS, 0.0) | {"KVCache": 4.0}
    assert marks["carl"] == marks["dora"] == dict.fromkeys(POINTS, 0.0)
    assert not {"tom", "nils"} & set(marks)
    assert "tom of 01_kv_cache is not graded: there are 2 notebooks" in done.stderr
    assert "nils of 01_kv_cache is not graded: there is no notebook" in done.stderr
    assert "  zoe: 12 points" in done.stdout and "1 unreadable" in done.stdout
    assert "the locked cell check-KVCache is missing" in done.stdout
    assert "9 written, 0 as before" in done.stdout
    files = [path.name for path in (course.folder / "results" / UNIT).iterdir()]
    assert len(files) == 7 + 1, "equal hand-ins share a result: zoe's and yan's, emil's and paul's"
    assert not any(student in name for name in files for student in marks)

    rows = database(course)
    for student in ("tom", "nils"):
        shutil.rmtree(course.folder / "submitted" / student)
    assert graded(kvgrade(course, "grade")) == (0, 9)
    assert database(course) == rows
    hand_in(course, "carl", RIGHT)
    done = kvgrade(course, "grade")
    assert graded(done) == (0, 9), "it is zoe's hand-in"
    assert course.marks()["carl"] == POINTS
    assert "carl  KVCache  0 → 4  (not attempted → -)" in done.stdout


def test_parts_of_a_class_then_the_gradebook(course: Course) -> None:
    small_class(course)
    whole = copied(course, course.folder.parent / "whole")
    for part in ("1/2", "2/2"):
        assert kvgrade(course, "grade", "--shard", part).returncode == 0
        assert not database(course)["students"]
    done = kvgrade(course, "grade")
    assert graded(done) == (0, 6)
    graded(kvgrade(whole, "grade"))
    assert database(course) == database(whole) and notebooks(course) == notebooks(whole)
    assert result_files(course) == result_files(whole)


def test_each_student_is_in_one_part() -> None:
    students = [f"s{number}" for number in range(300)]
    for n in (1, 2, 7):
        parts = [[s for s in students if plan.in_shard(s, i, n)] for i in range(1, n + 1)]
        assert sorted(student for part in parts for student in part) == sorted(students)
        assert min(map(len, parts)) > 0.5 * 300 / n
    assert plan.read_shard("2/7") == (2, 7)
    for text in ("", "0/2", "3/2", "1", "a/b", "1/2/3", "-1/2"):
        with pytest.raises(ValueError, match="i/n"):
            plan.read_shard(text)


def test_results_alone_and_a_dry_run_leave_the_gradebook(course: Course) -> None:
    hand_in(course, "zoe", RIGHT)
    assert graded(kvgrade(course, "grade", "--results-only")) == (1, 0)
    done = kvgrade(course, "grade", "--dry-run")
    assert graded(done) == (0, 1) and "1 would be written" in done.stdout
    assert not database(course)["students"] and not (course.folder / "autograded").exists()
    assert not (course.folder / "results" / UNIT / "merged.json").exists()


def test_without_a_jail_only_when_asked_for(course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hand_in(course, "zoe", RIGHT)
    (tmp_path / "tools").mkdir()
    for name in ("prlimit", "setpriv"):
        (tmp_path / "tools" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    refused = kvgrade(course, "grade")
    assert refused.returncode == 1 and "can't be isolated here" in refused.stderr
    assert graded(kvgrade(course, "grade", "--unsafe-no-sandbox")) == (1, 0)
    assert course.feedback("zoe").count("NOT ISOLATED") == len(POINTS)


def test_what_can_not_be_done_is_said_in_a_sentence(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def says(*words: str) -> str:
        assert main(["grade", "--course", str(course.folder), *words]) == 1
        return capsys.readouterr().err

    assert "nothing to grade" in says()
    hand_in(course, "zoe", RIGHT)
    assert "no unit '99'" in says("--unit", "99")
    assert "no hand-in of bob" in says("--student", "bob")
    assert "no exercise softmax among these: positions_processed, KVCache" in says("--exercise", "softmax")
    assert "i/n" in says("--shard", "3/2")
    assert "--jobs 0" in says("--jobs", "0")
    assert "--seconds -1" in says("--seconds", "-1")
    with held(course.folder / "results" / ".grade.lock", "waits"):
        assert f"Another process ({os.getpid()}) grades this class here" in says()
    assert "is no course folder" in _error(capsys, "--course", str(tmp_path))
    (course.folder / "release" / UNIT / f"{UNIT}.ipynb").unlink()
    assert f"nbgrader generate_assignment {UNIT}" in says("--unit", "01")


def _error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["grade", *words]) == 1
    return capsys.readouterr().err


def test_a_fault_of_the_grader_is_named_and_nobody_else_is_hurt(
    course: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_in(course, "anna", RIGHT)
    hand_in(course, "bad", dump(filled(MATERIAL, {"KVCache": "# ends its process\n"})))
    give = pool._Child.give

    def deadly(self: pool._Child, one: pool.Job, tries: int, seconds: float) -> None:
        give(self, one, tries, seconds)
        if self._ready and b"ends its process" in one.hand_in:
            self.process.kill()

    monkeypatch.setattr(pool._Child, "give", deadly)
    assert main(["grade", "--course", str(course.folder)]) == 1
    said = capsys.readouterr()
    assert "bad of 01_kv_cache could not be graded: the process that graded it ended (SIGKILL)" in said.err
    assert set(course.marks()) == {"anna"}
    monkeypatch.undo()
    assert main(["grade", "--course", str(course.folder)]) == 0
    assert set(course.marks()) == {"anna", "bad"}


def _start(course: Course, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("grade", *arguments),
        cwd=course.folder,
        env=environment(course),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests may run where Ctrl-C is ignored
    )


def _below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return list(psutil.Process(process.pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=20)
    return not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def test_ctrl_c_ends_it_and_the_next_run_goes_on(course: Course) -> None:
    hand_in(course, "anna", RIGHT)
    hand_in(course, "loop", dump(filled(MATERIAL, {"positions_processed": ENDLESS})))
    running = _start(course, "--jobs", "1")
    first = course.folder / "results" / UNIT
    end = time.monotonic() + 120
    while not (first.is_dir() and list(first.glob("[0-9a-f]*.json"))) and time.monotonic() < end:
        time.sleep(0.05)
    below = _below(running)
    assert below
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=30)
    assert running.returncode == 130
    assert told.strip().endswith("What is graded is kept: run the same command again to go on."), told
    assert "Traceback" not in told
    assert _gone(below), "a process is left"
    assert graded(kvgrade(course, "grade", "--case-seconds", "1"))[1] == 0, "other limits are another grading"
    assert graded(kvgrade(course, "grade"))[1] >= 1


@pytest.mark.parametrize(
    "moments", [3, pytest.param(20, marks=[pytest.mark.full, pytest.mark.timeout(3600)])], ids=["short", "long"]
)
def test_killed_at_random_moments_it_ends_where_an_undisturbed_run_does(course: Course, moments: int) -> None:
    """kill -9. In the short form all of them in one class; in the long one each in a fresh class."""
    small_class(course)
    fresh = copied(course, course.folder.parent / "fresh")
    began = time.monotonic()
    graded(kvgrade(course, "grade"))
    took = time.monotonic() - began
    wanted = (database(course), notebooks(course), result_files(course))
    draw = random.Random(9)
    copy: Course | None = None
    for number in range(moments):
        if copy is None or moments > 3:
            copy = copied(fresh, course.folder.parent / f"copy{number}")
        running = _start(copy, "--jobs", "2")
        time.sleep(draw.uniform(0.1, 1.0) * took)
        below = _below(running)
        running.kill()
        running.communicate()
        assert _gone(below), f"moment {number}: a process is left"
        if moments > 3 or number == moments - 1:
            done = kvgrade(copy, "grade")
            assert done.returncode == 0, done.stderr
            assert database(copy) == wanted[0] and notebooks(copy) == wanted[1], number
            assert result_files(copy) == wanted[2], number
            assert not [p for p in (copy.folder / "results").rglob("*.part")] or moments == 3
    keys = json.loads((course.folder / "results" / UNIT / "merged.json").read_text())
    assert len(keys) == 6
