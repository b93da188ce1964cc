"""Grade on this machine: processes of our own, one hand-in at a time each.

A process that dies or hangs costs only the hand-in that it had, which is tried once more in a new one. Processes end
with the grader, also when that is killed, and a jail ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from . import graft
from .job import Job, run
from .results import Result
from .session import START_SECONDS

PR_SET_PDEATHSIG = 1  # linux/prctl.h
MARGIN = 120.0  # seconds beyond the limits of the exercises: imports, drawing cases, comparing
IMPORT_SECONDS = 300.0  # for a process to start, on a busy machine
SEND_SECONDS = 60
TRIES = 2
READY, DONE, FAILED = b"?", b"+", b"!"


@dataclass(frozen=True)
class Fault:
    """A hand-in that the grader could not grade. It says nothing about the answers, and is no result."""

    why: str


def hard_limit(job: Job) -> float:
    """Seconds after which a process that has a hand-in is taken to hang."""
    exercises = len(job.exercises) or len(graft.checks(json.loads(job.released)))
    return exercises * (job.options.seconds + START_SECONDS) + MARGIN


class Pool:
    """Processes that grade. Use as a context manager; `run` may be called several times."""

    def __init__(self, size: int, limit: Callable[[Job], float] = hard_limit) -> None:
        if size < 1:
            raise ValueError(f"the number of jobs is {size}: it must be at least 1")
        self.size = size
        self.limit = limit
        self._children: list[_Child] = []
        self._folder = Path(tempfile.mkdtemp(prefix="kvgrade-"))  # what a killed process leaves behind goes with it
        self._folder.chmod(0o755)  # as root, answers run as another user

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, whatever they do."""
        for child in self._children:
            child.stop()
        self._children.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result | Fault]]:
        """Outcomes as they come. A job is taken from `jobs` when a process is free for it.

        Raises RuntimeError when the processes can't be started at all.
        """
        waiting = iter(jobs)
        again: deque[tuple[Job, int]] = deque()
        while True:
            while self._has_room():
                given = again.popleft() if again else next(((job, 1) for job in waiting), None)
                if given is None:
                    break
                self._free_child().give(*given, self.limit(given[0]))
            busy = [child for child in self._children if child.job]
            if not busy:
                return
            soonest = min(child.deadline for child in busy) - time.monotonic()
            wait([child.connection for child in busy], timeout=max(0.0, min(1.0, soonest)))
            for child in busy:
                reply = child.take()
                if reply is None:
                    continue
                assert child.job
                job, tries = child.job, child.tries
                if isinstance(reply, Fault):
                    child.stop()
                    self._children.remove(child)
                    if tries < TRIES:
                        again.append((job, tries + 1))
                        continue
                child.job = None
                yield job, reply

    def _has_room(self) -> bool:
        return sum(child.job is not None for child in self._children) < self.size

    def _free_child(self) -> _Child:
        """A process without a job, a new one if need be."""
        for child in self._children:
            if child.job is None:
                return child
        self._children.append(_Child(self._folder, self._core()))
        return self._children[-1]

    def _core(self) -> int | None:
        """A core for a new process and its jails alone, where every core is asked for.

        The kernel puts a process that another one wakes beside it. A process and its jail wake each other all the time,
        so two pairs that may go anywhere often share a core while the other has nothing to do (docs/grading.md: figures).
        """
        if sys.platform != "linux":
            return None
        cores = os.sched_getaffinity(0)
        return min(cores - {child.core for child in self._children}) if self.size == len(cores) > 1 else None


class _Child:
    """One process, and the hand-in that it has."""

    def __init__(self, folder: Path, core: int | None) -> None:
        self.core = core
        here, there = socket.socketpair()
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
        with there:
            command = [sys.executable, "-P", "-m", "kvgrade.pool", str(there.fileno()), str(os.getpid())]
            self.process = subprocess.Popen(
                command if core is None else [*command, str(core)],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _is_file(sys.stderr) else subprocess.DEVNULL,
                env=_environment(folder),
                start_new_session=True,  # Ctrl-C is for the grader, which ends its processes itself
            )
        self.connection = Connection(here.detach())
        self.job: Job | None = None
        self.tries = 0
        self.seconds = 0.0
        self.deadline = 0.0
        self._ready = False

    def give(self, job: Job, tries: int, seconds: float) -> None:
        """Let the process grade a hand-in, as soon as it is ready for one."""
        self.job, self.tries, self.seconds = job, tries, seconds
        self.deadline = time.monotonic() + (seconds if self._ready else IMPORT_SECONDS)
        if self._ready:
            with contextlib.suppress(OSError):  # it is gone: `take` will see that
                self.connection.send_bytes(job.to_json())

    def take(self) -> Result | Fault | None:
        """What came of the job, None while it lasts. After a fault the process is of no use any more."""
        assert self.job
        try:
            if not self.connection.poll():
                late = time.monotonic() > self.deadline
                return Fault(f"no end within {self.seconds:.0f} s") if late else None
            reply = self.connection.recv_bytes()
        except (EOFError, OSError):
            return self._gone()
        kind, content = reply[:1], reply[1:]
        if kind == READY:
            self._ready = True
            self.give(self.job, self.tries, self.seconds)
            return None
        if kind == FAILED:
            return Fault(content.decode())
        result = Result.from_json(content)
        if result.key != self.job.key:
            return Fault("the process sent the result of another hand-in")
        return result

    def _gone(self) -> Fault:
        code = self.process.wait()
        if not self._ready:
            raise RuntimeError("The grader's processes do not start here; what they said stands above.")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Fault(f"the process that graded it ended ({how})")

    def stop(self) -> None:
        """End the process, and with it its jails; where there are none, what it started goes with its group."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.connection.close()


def _environment(folder: Path) -> dict[str, str]:
    """Our own, with our modules on the path, one thread for the same sums everywhere, and a place for files."""
    here = str(Path(__file__).parents[1])
    path = os.pathsep.join(dict.fromkeys([here, *filter(None, sys.path)]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}


def _is_file(stream: object) -> bool:
    try:
        stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
    return True


def serve(connection: Connection) -> None:
    """The loop of a process: a job in, a result out, until the other end closes."""
    connection.send_bytes(READY)
    while True:
        try:
            data = connection.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            reply = DONE + run(Job.from_json(data)).to_json()
        except Exception as error:  # whatever it is, it is told and costs this hand-in alone
            reply = FAILED + f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        connection.send_bytes(reply)


def main(argv: list[str]) -> int:
    """`python -m kvgrade.pool FD PARENT [CORE]`: how `Pool` starts its processes."""
    fd, parent = int(argv[0]), int(argv[1])
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked to be told
        return 1
    for core in argv[2:]:
        with contextlib.suppress(OSError):  # a core that was taken from us meanwhile: any other will do
            os.sched_setaffinity(0, {int(core)})
    serve(Connection(fd))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
