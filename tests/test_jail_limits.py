"""The jail ends: limits on memory, time and files, stopping, and what is said where it cannot start."""

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT, require
from jailed import marked, wait_until
from kvgrade import jail, walls
from kvgrade.inside import confine
from kvgrade.inside.confine import Limits


def test_memory(begin: Any) -> None:
    jailed = begin(
        "show(tried(bytearray, 1 << 30)); show(tried(bytearray, 1 << 20))", child_limits={"memory_bytes": 1 << 29}
    )
    assert [jailed.line(), jailed.line()] == ["MemoryError", "done"]
    extra = begin("show([tried(bytearray, mb << 20) for mb in (20, 50)])", extra_memory=40 << 20)
    assert extra.line() == ["done", "MemoryError"]


def test_cpu_time(begin: Any) -> None:
    code = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    started = time.monotonic()
    assert begin(code, child_limits={"cpu_seconds": 1}).line() == {"exit": -signal.SIGKILL}
    assert time.monotonic() - started < 10


def test_file_sizes_and_numbers(begin: Any) -> None:
    code = """
        def fill(folder):
            for n in range(20):
                with open(f"{folder}/{n}", "wb") as file:
                    file.write(bytes(900_000))
        folders = ["/tmp", "/home/jail", "/dev/shm"]
        before = confine.used_files(folders)
        show(tried(lambda: open("/tmp/big", "wb", 0).write(bytes(1_000_000)) and open("/tmp/big", "ab", 0).write(b"x" * 100_000)))
        show([tried(fill, folder) for folder in folders])
        for n in range(500):
            open(f"/tmp/empty{n}", "w").close()
        show(confine.used_files(folders, before) >= 500)
        show(tried(lambda: [os.dup(1) for _ in range(300)]))
    """
    jailed = begin(code, limits={"file_bytes": 1_000_000, "temp_bytes": 4 << 20, "home_bytes": 2 << 20})
    assert jailed.line() == "EFBIG"
    assert jailed.line() == ["ENOSPC"] * 3
    assert [jailed.line(), jailed.line()] == [True, "EMFILE"]


# How it ends


@pytest.mark.parametrize(
    "code",
    [
        "show(1)\nwhile True: os.write(1, b'x' * 65536)",
        "show(1)\nwhile True: tried(os.write, 2, b'x' * 65536)",
        "import signal, time\nfor n in (1, 2, 3, 13, 15): signal.signal(n, signal.SIG_IGN)\nshow(1)\ntime.sleep(60)",
        "import threading\nfor _ in range(4): threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\nshow(1)\nos.read(0, 1)",
    ],
    ids=["floods stdout", "floods stderr", "ignores signals", "busy threads"],
)
def test_stop_ends_everything_at_once(begin: Any, code: str) -> None:
    word = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    jailed = begin(code, words=(word,))
    assert jailed.line() == 1
    assert len(marked(word)) == 4  # bubblewrap outside and inside, the first process and its child
    assert os.fstat(jailed.process.stderr.fileno()).st_size <= Limits().file_bytes
    started = time.monotonic()
    assert len(jail.stop(jailed.process)) <= 300
    assert time.monotonic() - started < 3
    assert marked(word) == []
    assert all(pipe.closed for pipe in (jailed.process.stdin, jailed.process.stdout))
    jail.stop(jailed.process)


def test_stop_while_the_jail_is_being_made(grader: Path) -> None:
    for n in range(20):
        word = f"marker-{os.getpid()}-{time.monotonic_ns()}"
        process = jail.start([jail.python(), "-I", "-c", "import time; time.sleep(60)", word], {}, Limits())
        time.sleep(n / 1000)
        jail.stop(process)
        assert wait_until(lambda word=word: not marked(word), 1), n


def test_jail_dies_with_the_grader(grader: Path) -> None:
    word = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    code = f"""
import sys, time
from kvgrade import jail
jail.start([jail.python(), "-I", "-c", "import time; time.sleep(60)", "{word}"], {{}}, jail.Limits())
time.sleep(60)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "grading"), str(ROOT / "src")])}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    try:
        assert wait_until(lambda: len(marked(word)) >= 3)
    finally:
        parent.kill()
        parent.wait()
    assert wait_until(lambda: not marked(word))


def test_stop_says_what_went_wrong(grader: Path) -> None:
    process = jail.start([jail.python(), "-I", "-c", "raise SystemExit('no such thing')"], {}, Limits())
    assert process.wait(10) == 1
    assert jail.stop(process) == "no such thing"
    assert jail.stop(process) == ""


# What must work


def test_modules_beside_the_answer_are_ignored(grader: Path, tmp_path: Path) -> None:
    fake = tmp_path / "json.py"
    fake.write_text("raise SystemExit('the wrong json')")
    fake.chmod(0o644)
    argv = [jail.python(), "-I", "-c", "import os, json; print(os.listdir(), json.__file__)"]
    process = jail.start(argv, {"/home/jail/json.py": fake}, Limits())
    assert process.stdout is not None
    said = process.stdout.read().decode()
    assert jail.stop(process) == ""
    assert said.startswith("['json.py']") and "/home/jail" not in said


@pytest.mark.parametrize("isolated", [True, False])
def test_torch_and_numpy_compute(begin: Any, isolated: bool) -> None:
    code = """
        import numpy, torch, time
        torch.set_num_threads(2)
        a = torch.ones(300, 300, requires_grad=True)
        (a @ a).sum().backward()
        show([float(a.grad[0, 0]), float((numpy.ones((300, 300)) @ numpy.ones((300, 300)))[0, 0]), tried(os.fork)])
    """
    assert begin(code, isolated=isolated).line() == [600.0, 300.0, "EPERM"]


def test_pipes_are_handed_on(grader: Path) -> None:
    mine, theirs = os.pipe()
    argv = [jail.python(), "-I", "-c", f"import os; os.write({theirs}, b'hello')"]
    process = jail.start(argv, {}, Limits(), pass_fds=[theirs])
    os.close(theirs)
    assert os.read(mine, 100) == b"hello"
    os.close(mine)
    jail.stop(process)


# What a person is told


def test_available_here() -> None:
    require("bubblewrap")
    assert jail.unavailable() is None


def test_missing_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert jail.unavailable() == "The command bwrap is missing: install Debian's package bubblewrap."
    with pytest.raises(RuntimeError, match="bwrap is missing"):
        jail.start(["true"], {}, Limits())


def test_wrong_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert "not riscv64: run the grader on one of these" in (jail.unavailable() or "")
    with pytest.raises(RuntimeError, match="riscv64"):
        confine.confine(Limits())
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert "this is Darwin: run the grader in a Linux container" in (jail.unavailable() or "")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "bwrap: No permissions to create new namespace, likely because ...",
            "let ordinary users make user namespaces",
        ),
        ("bwrap: setting up uid map: Permission denied", "let ordinary users make user namespaces"),
        ("bwrap: Unknown option --disable-userns", "install version 0.8 or newer"),
        ("OSError: [Errno 1] setns: Operation not permitted", "use Linux 5.8 or newer"),
        ("ImportError: no confine", "could not start a jail (ImportError: no confine)"),
        ("", "no reason given"),
    ],
)
def test_advice(said: str, told: str) -> None:
    advice = jail._advice(said)
    assert told in advice and said.removesuffix(".") in advice and "\n" not in advice


def test_broken_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require("bubblewrap")
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: Creating new namespace failed: Operation not permitted' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert "Creating new namespace failed" in (jail.unavailable() or "")


def test_mounts_are_checked(grader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no absolute path"):
        jail.start(["true"], {"grader": grader}, Limits())
    with pytest.raises(FileNotFoundError, match="was to be mounted at /nothing"):
        jail.start(["true"], {"/nothing": grader / "nothing"}, Limits())
    grader.chmod(0o700)
    monkeypatch.setattr(walls, "stranger_id", lambda: 1 << 20)
    with pytest.raises(PermissionError, match=r"chmod -R o\+rX"):
        jail.start(["true"], {"/grader": grader}, Limits())
