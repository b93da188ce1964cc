"""Processes that grade: their results, and what the death or the silence of one costs."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from class_runs import MATERIAL, environment
from helpers import ROOT, require
from hostile.course import Course
from hostile.model import MAIN, UNIT, dump, filled
from kvgrade import pool
from kvgrade.job import Job, Options, run
from kvgrade.pool import Fault, Pool, hard_limit
from kvgrade.results import Result
from kvgrade.version import grader_version

RELEASED = (ROOT / "notebooks" / MAIN).read_bytes()
ENDLESS = "def positions_processed(*args, **kwargs):\n    while True:\n        pass\n"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def job(answers: dict[str, str], isolated: bool = False) -> Job:
    data = dump(filled(MATERIAL, answers))
    return Job(UNIT, data, "", RELEASED, 3, grader_version(UNIT), options=Options(isolated, case_seconds=1.0))


def quick(count: int) -> list[Job]:
    return [job({"kv_cache_bytes": f"{MATERIAL.right['kv_cache_bytes']}\n# {number}\n"}) for number in range(count)]


def until(what: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return False


def graders() -> list[psutil.Process]:
    """The processes of pools that this process started."""
    return [p for p in psutil.Process().children() if "kvgrade.pool" in " ".join(_line(p))]


def _line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def plain(outcome: Result | Fault) -> Result:
    assert isinstance(outcome, Result), outcome
    return dataclasses.replace(outcome, measured={})


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert until(lambda: not graders(), 10), "a process of the pool is left"


def test_results_are_those_of_this_process_whatever_the_order() -> None:
    jobs = [*quick(3), job(dict(MATERIAL.wrong)), job({})]
    with Pool(2) as running:
        outcomes = {one.key: plain(outcome) for one, outcome in running.run(jobs)}
        assert len(graders()) == 2
        again = [plain(outcome) for _, outcome in running.run(jobs[:1])]
        assert len(graders()) == 2, "the same processes are used again"
    assert outcomes == {one.key: plain(run(one)) for one in jobs}
    assert again == [outcomes[jobs[0].key]]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a process a core of its own")
def test_each_process_has_a_core_of_its_own_where_all_cores_are_asked_for() -> None:
    """A process that takes the place of a dead one takes its core too. Otherwise any core will do."""
    cores = os.sched_getaffinity(0)
    with Pool(len(cores)) as running:
        list(running.run(quick(2 * len(cores))))
        assert sorted(map(min, _cores())) == sorted(cores) and all(len(own) == 1 for own in _cores())
        graders()[0].kill()
        list(running.run(quick(2 * len(cores))))
        assert sorted(map(min, _cores())) == sorted(cores) and all(len(own) == 1 for own in _cores())
    with Pool(len(cores) + 1) as running:
        list(running.run(quick(1)))
        assert _cores() == [cores]


def _cores() -> list[set[int]]:
    return [os.sched_getaffinity(process.pid) for process in graders()]


def test_a_pool_needs_room() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Pool(0)


def test_jobs_are_taken_only_when_a_process_is_free() -> None:
    taken = []

    def source() -> Iterator[Job]:
        for one in quick(4):
            taken.append(one)
            yield one

    with Pool(1) as running:
        for number, _ in enumerate(running.run(source()), 1):
            assert len(taken) <= number + 1


def test_a_killed_process_costs_nobody_a_mark() -> None:
    """The hand-in under way is tried again, others do not notice."""
    jobs = [job({"positions_processed": ENDLESS}), *quick(3)]
    with Pool(2) as running:
        outcomes = running.run(jobs)
        _, first = next(outcomes)  # a quick one, while the other loops
        assert isinstance(first, Result) and first.points == 2
        killed = graders()
        for process in killed:
            process.kill()
        rest = [plain(outcome) for _, outcome in outcomes]
        assert len(rest) == 3
        assert not {p.pid for p in killed} & {p.pid for p in graders()}
    looped = next(one for one in rest if "positions_processed" in one.answers)
    assert "is there a loop without an end" in looped.marks["positions_processed"].text


def test_a_hand_in_that_keeps_ending_its_process_is_named_and_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = quick(2)
    give, ended = pool._Child.give, []

    def deadly(self: pool._Child, one: Job, tries: int, seconds: float) -> None:
        give(self, one, tries, seconds)
        if one.key == bad.key and self._ready:
            self.process.kill()
            ended.append(tries)

    monkeypatch.setattr(pool._Child, "give", deadly)
    with Pool(1) as running:
        found = {one.key: outcome for one, outcome in running.run([bad, good])}
    assert ended == [1, 2]
    assert found[bad.key] == Fault("the process that graded it ended (SIGKILL)")
    assert isinstance(found[good.key], Result)


def test_a_process_that_hangs_is_ended() -> None:
    jobs = [job({"positions_processed": ENDLESS}), *quick(1)]
    limits = {jobs[0].key: 2.0}
    with Pool(1, lambda one: limits.get(one.key, hard_limit(one))) as running:
        outcomes = dict((one.key, outcome) for one, outcome in running.run(jobs))
    assert outcomes[jobs[0].key] == Fault("no end within 2 s")
    assert isinstance(outcomes[jobs[1].key], Result)
    assert hard_limit(jobs[0]) >= 4 * 75


def test_a_fault_in_grading_is_told_with_its_reason() -> None:
    wrong = dataclasses.replace(quick(1)[0], grader="0" * 64)
    with Pool(1) as running:
        ((_, outcome),) = list(running.run([wrong]))
    assert isinstance(outcome, Fault) and "Refused: another version of the grader" in outcome.why


def test_children_and_jails_end_with_a_killed_parent(tmp_path: object) -> None:
    require("bubblewrap")
    script = (
        "import test_pool as t\nfrom kvgrade.pool import Pool\n"
        "jobs = [t.job({'positions_processed': t.ENDLESS}, isolated=True) for _ in range(2)]\n"
        "with Pool(2) as running:\n    list(running.run(jobs))\n"
    )
    env = environment(Course(ROOT)) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", script], env=env, cwd=ROOT / "tests")
    below: dict[int, psutil.Process] = {}

    def jailed() -> bool:
        below.update({p.pid: p for p in psutil.Process(parent.pid).children(recursive=True)})
        return sum("bwrap" in " ".join(_line(p)) for p in below.values()) >= 2

    try:
        assert until(jailed, 120), "no jail was started"
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    assert until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in _alive(below)), 20)


def _alive(processes: dict[int, psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes.values() if psutil.pid_exists(p.pid) and p.is_running()]
