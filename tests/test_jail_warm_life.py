"""The warm process leaves nothing behind, ends with its grader, is replaced, and enters no jail that is not as told."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT, require
from jail_probe import begun, children, open_files, probe, warm_pid
from jail_session import HALF, right
from jailed import wait_until
from kvgrade import jail, stripped, walls, warm
from kvgrade.inside import enter
from kvgrade.inside.confine import Limits
from kvgrade.session import Session
from kvgrade.worker import Worker

HALVES = "def half(x):\n    return x / 2"

# What it leaves


def test_many_jails_leave_nothing() -> None:
    probe("return 1")
    files, theirs = open_files(), open_files(warm_pid()) if os.geteuid() == 0 else 0
    mine = children(os.getpid())
    for _ in range(15):
        assert probe("return os.getpid()") > 0
    assert open_files() == files
    assert wait_until(lambda: children(warm_pid()) == [])
    assert children(os.getpid()) == mine
    if theirs:
        assert open_files(warm_pid()) == theirs


def test_a_stopped_answer_leaves_no_process() -> None:
    busy = "import signal, threading\nfor n in (1, 2, 3, 13, 15): signal.signal(n, signal.SIG_IGN)\n"
    busy += "for _ in range(4): threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\n"
    with begun(busy) as worker:
        (first,) = children(warm_pid())
        answer = children(first)
        assert len(answer) == 1
        assert worker.process.poll() is None
    gone = [first, *answer, worker.process.pid]
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in gone))
    assert children(warm_pid()) == []


def test_a_dead_warm_process_is_replaced() -> None:
    probe("return 1")
    before = warm_pid()
    os.kill(before, signal.SIGKILL)
    assert probe("return 2") == 2
    assert warm_pid() != before


def test_one_that_dies_on_the_request_is_replaced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []
    enter_once = warm.enter

    def deadly(kind: str, *rest: Any) -> None:
        enter_once(kind, *rest)
        starts.append(warm_pid())
        if len(starts) <= deaths:
            os.kill(starts[-1], signal.SIGSTOP)  # it may have answered already: then only the next one is lost
            os.kill(starts[-1], signal.SIGKILL)

    os.kill(warm_pid(), signal.SIGKILL)  # a fresh one imports first, and is killed before it can answer
    monkeypatch.setattr(warm, "enter", deadly)
    deaths = 1
    assert probe("return 3") == 3 and len(starts) == 2
    deaths = 9
    os.kill(warm_pid(), signal.SIGKILL)
    starts.clear()
    with pytest.raises(jail.NoJail):
        probe("return 4")
    assert len(starts) == 2


def run(code: str) -> subprocess.Popen[str]:
    """A grader of its own."""
    require("bubblewrap")
    path = os.pathsep.join(str(ROOT / folder) for folder in ("grading", "src", "tests"))
    words = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True)


def test_it_ends_with_the_grader() -> None:
    code = """
        import time
        from jail_probe import probe, warm_pid
        probe("return 1")
        print(warm_pid(), flush=True)
        time.sleep(60)
    """
    for end in (subprocess.Popen.kill, subprocess.Popen.terminate):
        with run(code) as grader:
            assert grader.stdout
            number = int(grader.stdout.readline())
            end(grader)
        assert wait_until(lambda number=number: not Path(f"/proc/{number}").exists(), 10)


def test_an_answer_without_a_jail_ends_with_the_grader_too() -> None:
    code = """
        import time
        from dataclasses import asdict
        from kvgrade import stripped
        from kvgrade.worker import Worker, confine
        limits = confine.Limits()
        worker = Worker(stripped.tree(()), limits, False, False, time.monotonic() + 120)
        print(worker.process.pid, flush=True)
        job = {"cell": "while True: pass", "closed": [], "limits": asdict(limits), "extra_memory": None}
        worker.begin("endless", job, time.monotonic() + 60)
    """
    with run(code) as grader:
        assert grader.stdout
        first = int(grader.stdout.readline())
        assert wait_until(lambda: children(first))
        pids = [first, *children(first)]
        grader.kill()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10)


def test_a_forked_grader_has_its_own() -> None:
    code = """
        import os
        from jail_probe import probe, warm_pid
        probe("return 1")
        print(warm_pid(), flush=True)
        if os.fork() == 0:
            probe("return 1")
            print(warm_pid(), flush=True)
            os._exit(0)
        os.wait()
        print(warm_pid(), probe("return 5"), flush=True)
    """
    with run(code) as grader:
        first, second, third = grader.communicate()[0].split("\n")[:3]
    assert first != second and third == f"{first} 5"


def test_threads_grade_at_the_same_time() -> None:
    require("bubblewrap")
    results: list[list[bool]] = []

    def work() -> None:
        with Session(with_torch=False) as session:
            for _ in range(3):
                results.append(right(session, HALF, HALVES))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[True]] * 9


# What it refuses


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"spaces": {"mnt": 1}}, "made only the namespaces"),
        ({"spaces": {"mnt": 1, "pid": 1, "net": 1, "ipc": 1, "uts": 1}}, "another mnt namespace than the jail"),
        ({"home": "/tmp/../nothing"}, "No such file"),
        ({"home": "/usr/../tmp"}, "folder of the host"),
        ({"stranger": "nobody"}, "Error"),
    ],
)
def test_a_jail_that_is_not_as_announced(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], told: str) -> None:
    require("bubblewrap")
    hold = jail.hold

    def other(*args: Any) -> jail.Held:
        held = hold(*args)
        return jail.Held(held.process, held.handle, {**held.entry, **change})

    monkeypatch.setattr(jail, "hold", other)
    with pytest.raises(jail.NoJail, match=told):
        Worker(stripped.tree(()), Limits(), True, False, time.monotonic() + 60)


def test_a_program_that_can_be_changed(tmp_path: Path) -> None:
    mine = tmp_path / "python"
    mine.write_bytes(b"")
    for mode in (0o755, 0o555):  # who owns a file may change its mode
        mine.chmod(mode)
        assert not enter.unchangeable(str(mine))
        assert mine.stat().st_mode & 0o777 == mode
    if os.geteuid() != 0:
        assert enter.unchangeable(walls.loader())


def test_the_loader_is_the_systems() -> None:
    loader = walls.loader()
    assert os.access(loader, os.X_OK) and os.stat(loader).st_uid == 0
    words = [loader, "--argv0", walls.python(), os.path.realpath(walls.python()), "-I", "-c"]
    said = subprocess.run([*words, "import sys; print(sys.executable, sys.prefix)"], capture_output=True, text=True)
    assert said.stdout.split() == [walls.python(), sys.prefix]
