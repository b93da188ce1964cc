"""A worker to try things from inside the jail, and the fixtures around it."""

import json
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import require
from kvgrade import jail
from kvgrade.inside import confine
from kvgrade.inside.confine import Limits

# Reads a job, runs its code in a confined child or in this process, and prints how that ended.
WORKER = """
import ctypes, errno, json, os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import confine

def tried(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except OSError as error:
        return errno.errorcode[error.errno]
    except BaseException as error:
        return type(error).__name__
    return "done"

def show(value):
    os.write(1, json.dumps(value).encode() + b"\\n")

libc = ctypes.CDLL(None, use_errno=True)

def system_call(number, *args):
    ctypes.set_errno(0)
    words = [ctypes.c_long(arg) for arg in (number, *args)]
    return "done" if libc.syscall(*words) >= 0 else errno.errorcode[ctypes.get_errno()]

job = json.loads(sys.stdin.readline())
if job["confined"]:
    confine.make_undumpable()
    pid = os.fork()
    if pid == 0:
        confine.confine(confine.Limits(**job["limits"]), job["extra_memory"])
        try:
            exec(job["code"])
        finally:
            os._exit(0)
    show({"exit": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})
else:
    exec(job["code"])
"""


@pytest.fixture
def grader(tmp_path: Path) -> Path:
    """A folder to mount at /grader."""
    require("bubblewrap")
    folder = tmp_path / "grader"
    folder.mkdir()
    (folder / "worker.py").write_text(WORKER)
    (folder / "confine.py").write_bytes(Path(confine.__file__).read_bytes())
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)
    return folder


class Inside:
    """A running jail with the code of a test in it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def line(self) -> Any:
        assert self.process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            more = self.process.stdout.read(1)
            if not more:
                pytest.fail(f"nothing more from the jail: {jail.stop(self.process)}")
            line += more
        return json.loads(line)


@pytest.fixture
def begin(grader: Path) -> Iterator[Any]:
    """A function that starts a jail with code in it."""
    started = []

    def start(
        code: str,
        confined: bool = True,
        limits: dict[str, int] | None = None,
        child_limits: dict[str, int] | None = None,
        extra_memory: int | None = None,
        mounts: dict[str, Path] | None = None,
        isolated: bool = True,
        words: tuple[str, ...] = (),
    ) -> Inside:
        job = {"code": textwrap.dedent(code), "confined": confined, "limits": child_limits or limits or {}}
        argv = [jail.python(), "-I", "/grader/worker.py", *words]
        process = jail.start(argv, {"/grader": grader, **(mounts or {})}, Limits(**(limits or {})), isolated)
        started.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps({**job, "extra_memory": extra_memory}).encode() + b"\n")
        return Inside(process)

    yield start
    for process in started:
        jail.stop(process)


def marked(word: str) -> list[str]:
    """The processes of this machine that have a word on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue  # it has just ended
    return found


def wait_until(true: Any, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(true())


# What is not there
