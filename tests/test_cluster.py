"""Several machines, as processes of this one: a dask scheduler without kvgrade, and workers that come, go and differ."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from class_runs import MATERIAL, command, copied, database, environment, hand_in, kvgrade, notebooks, small_class
from helpers import ROOT, require
from hostile.course import Course
from hostile.model import UNIT, dump, filled
from kvgrade import cluster, seeds
from kvgrade.job import Job
from kvgrade.pool import DONE, FAILED, Fault
from kvgrade.results import Result

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ENDLESS = "def positions_processed(*args, **kwargs):\n    while True:\n        pass\n"


class Machines:
    """A scheduler and its workers. Everything that is started here is ended here."""

    def __init__(self, course: Course, folder: Path) -> None:
        self.course, self.folder = course, folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        bare = {name: value for name, value in environment(course).items() if name != "PYTHONPATH"}
        words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
        self.start([sys.executable, "-m", "distributed.cli.dask_scheduler", *words], bare, "scheduler")
        end = time.monotonic() + 60
        while not file.is_file() and time.monotonic() < end:
            time.sleep(0.1)
        self.address = json.loads(file.read_text())["address"]

    def start(self, words: list[str], env: dict[str, str], name: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(words, env=env, cwd=self.folder, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def worker(self, name: str, **changes: str) -> subprocess.Popen[bytes]:
        """`kvgrade worker` in an environment with these changes."""
        env = environment(self.course) | changes
        return self.start(command("worker", self.address, "--jobs", "1"), env, name)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Course:
    require("bubblewrap")
    require("distributed")
    course = Course(tmp_path_factory.mktemp("released"))
    course.build()
    seeds.seed(course.folder, UNIT)
    return course


@pytest.fixture
def course(released: Course, tmp_path: Path) -> Course:
    return copied(released, tmp_path / "course")


@pytest.fixture
def machines(course: Course, tmp_path: Path) -> Iterator[Machines]:
    (tmp_path / "machines").mkdir()
    found = Machines(course, tmp_path / "machines")
    yield found
    found.end()


def other_grader(folder: Path) -> str:
    """PYTHONPATH of a copy of the grader with one changed case file."""
    shutil.copytree(
        ROOT / "grading", folder / "grading", ignore=shutil.ignore_patterns("source", "submitted", "answers", "*.pyc")
    )
    (folder / "data").symlink_to(ROOT / "data")
    (folder / "src").symlink_to(ROOT / "src")
    path = folder / "grading" / "cases" / UNIT / "KVCache.py"
    path.write_text(path.read_text() + "\n# corrected\n")
    return os.pathsep.join(str(folder / name) for name in ("grading", "src"))


def test_two_workers_and_one_killed_give_the_marks_of_one_machine(course: Course, machines: Machines) -> None:
    small_class(course)
    for number in range(3):
        loop = f"{ENDLESS}# {number}\n"
        hand_in(course, f"loop{number}", dump(filled(MATERIAL, {"positions_processed": loop})))
    local = copied(course, course.folder.parent / "local")
    done = kvgrade(local, "grade", "--case-seconds", "2")
    assert done.returncode == 0, done.stderr

    first, _ = machines.worker("first"), machines.worker("second")
    words = ["--case-seconds", "2", "--scheduler", machines.address]
    running = subprocess.Popen(
        command("grade", *words), cwd=course.folder, env=environment(course), stderr=subprocess.PIPE, text=True
    )
    folder = course.folder / "results" / UNIT
    end = time.monotonic() + 200
    while not (folder.is_dir() and len(list(folder.glob("[0-9a-f]*.json"))) >= 3) and time.monotonic() < end:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    _, told = running.communicate(timeout=300)
    assert running.returncode == 0, told
    assert "is gone" in told
    assert database(course) == database(local) and notebooks(course) == notebooks(local)


def test_a_worker_with_another_grader_gets_no_work(course: Course, machines: Machines, tmp_path: Path) -> None:
    hand_in(course, "anna", dump(filled(MATERIAL, MATERIAL.right)))
    (tmp_path / "other").mkdir()
    machines.worker("other", PYTHONPATH=other_grader(tmp_path / "other"))
    done = kvgrade(course, "grade", "--scheduler", machines.address)
    assert done.returncode == 1
    assert "gets no work: it has another version of the grader" in done.stderr
    assert "No worker is left that may grade. Results are kept" in done.stderr
    assert not database(course)["students"]
    machines.worker("right")
    end = time.monotonic() + 90
    while "grades for" not in machines.log("right") and time.monotonic() < end:
        time.sleep(0.1)
    done = kvgrade(course, "grade", "--scheduler", machines.address)
    assert done.returncode == 0, done.stderr
    assert "another version of the grader" in done.stderr
    assert sum(course.marks()["anna"].values()) == 12


def test_a_worker_without_a_jail_gets_no_work(course: Course, machines: Machines, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    bare = {"PATH": str(tmp_path / "tools")}
    refused = machines.worker("ours", **bare)
    assert refused.wait(timeout=120) == 1
    assert "Answers can't be isolated here" in machines.log("ours")

    hand_in(course, "anna", dump(filled(MATERIAL, MATERIAL.right)))
    words = [machines.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    machines.start([sys.executable, "-m", "distributed.cli.dask_worker", *words], environment(course) | bare, "theirs")
    done = kvgrade(course, "grade", "--scheduler", machines.address)
    assert done.returncode == 1
    assert "gets no work: it can't isolate answers" in done.stderr


def test_a_scheduler_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    require("distributed")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(RuntimeError, match=r"can't be reached .* start one with `dask scheduler`"):
        cluster.Cluster("tcp://127.0.0.1:9", [UNIT])


def test_waiting_for_workers_is_said_at_once(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "WAIT_SECONDS", 0.5)
    said: list[str] = []
    with (
        cluster.Cluster(machines.address, [UNIT], say=said.append) as found,
        pytest.raises(RuntimeError, match="has no workers"),
    ):
        list(found.run([Job(UNIT, b"", "", b"{}", 1, "0")]))
    assert "waiting for workers" in said[0] and "must be started again" in said[0]


def test_tls_needs_all_its_files(tmp_path: Path) -> None:
    require("distributed")
    assert cluster.security(None, None, None) is None
    with pytest.raises(ValueError, match="--tls-ca-file, --tls-cert and --tls-key"):
        cluster.security("ca.pem", None, None)
    settings = cluster.security("ca.pem", "cert.pem", "key.pem")
    assert settings.require_encryption and settings.tls_worker_key == settings.tls_client_key == "key.pem"


def future(reply: Any, status: str = "finished") -> Any:
    return SimpleNamespace(status=status, result=lambda: reply, exception=lambda: OSError("broken"))


def test_what_a_worker_sends_is_checked() -> None:
    job = Job(UNIT, b"", "", b"{}", 1, "0")
    result = Result(job.key, UNIT, "", "0", True, "", {}, [], {})
    assert cluster.outcome_of(future(DONE + result.to_json()), job) == result
    assert cluster.outcome_of(future(FAILED + b"no room"), job) == Fault("no room")
    other = Result("f" * 64, UNIT, "", "0", True, "", {}, [], {})
    for reply in (DONE + other.to_json(), DONE + b"{}", DONE + b"[1]", b"", None, 3, "text", {"a": 1}):
        assert isinstance(cluster.outcome_of(future(reply), job), cluster.Lost), reply
    assert cluster.outcome_of(future(None, "cancelled"), job) == cluster.Lost(
        "the worker that graded it failed (it is gone)"
    )
    assert cluster.outcome_of(future(None, "error"), job) == cluster.Lost("the worker that graded it failed (broken)")
