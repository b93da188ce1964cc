"""The untrusted side: the first process of a jail, and the child in which an answer runs.

The first process has numpy (and torch, when the answers or their cases need it) and waits on its own pipe. It forks a
child that gives up every right it does not need, executes the answer cell and serves cases over the data pipe; when the
child has ended, it can fork another one for the same answer. The child has no access to the first process' pipe.
One jail serves one exercise of one hand-in, so nothing can be left behind for another. Nothing in here knows an
expected value.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
from collections.abc import Sequence
from typing import Any, NoReturn

from . import answer, confine, steps, wire

WRITABLE = ("/tmp", "/home/jail", "/dev/shm")
LOOK_EVERY = 0.05  # seconds between looks at the number of files


def read_exactly(fd: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive(fd: int, tensor: Any = None) -> Any:
    header, body = wire.sizes(read_exactly(fd, wire.HEAD.size))
    return wire.unpack(read_exactly(fd, header), read_exactly(fd, body), tensor)


def send(fd: int, message: Any) -> None:
    data = memoryview(wire.pack(message))
    while data:
        data = data[os.write(fd, data) :]


def as_tensor(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)


def silence() -> None:
    """What an answer prints goes nowhere, and can fill nothing."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    if null > 2:
        os.close(null)


def main(pipes: Sequence[int], course: str, jailed: bool) -> None:
    """Serve one answer after the other until the grader closes the control pipe.

    pipes: control in, control out, data in, data out. course: the folder with kvlab.
    """
    control_in, control_out, data_in, data_out = pipes
    if jailed:
        confine.make_undumpable()
    send(control_out, {"ready": True})
    while True:
        try:
            job = receive(control_in)
        except EOFError:
            return
        _drain(data_in)
        pid = os.fork()
        if pid == 0:
            os.close(control_in)
            os.close(control_out)
            serve(job, data_in, data_out, jailed, course)
        send(control_out, {"ended": _watch(pid, job["limits"], jailed)})
        if jailed:
            _clean()


def serve(job: dict[str, Any], data_in: int, data_out: int, jailed: bool, course: str) -> NoReturn:
    """The child's life: confine itself, execute the answer, serve cases until the grader says stop."""
    status = 1
    try:
        answer.prepare(course)
        closed_calls = answer.close(job["closed"])
        confine.confine(confine.Limits(**job["limits"]), job["extra_memory"], sandboxed=jailed)
        names, error = answer.execute(job["cell"])
        send(data_out, {"cell": error})

        def callback(name: str) -> Any:
            def ask(*args: Any, **kwargs: Any) -> Any:
                send(data_out, {"call": name, "args": args, "kwargs": kwargs})
                reply = receive(data_in, as_tensor)
                if "raise" in reply:
                    raise ValueError(reply["raise"])
                return reply["return"]

            return ask

        while True:
            request = receive(data_in, as_tensor)
            if "steps" not in request:
                break
            outcomes = steps.run(names, request["steps"], callback, closed_calls, job["cell"], as_tensor)
            try:
                send(data_out, {"outcomes": outcomes})
            except wire.WireError as problem:
                send(data_out, {"outcomes": [{"unreadable": str(problem)}] * len(outcomes)})
        status = 0
    finally:
        os._exit(status)  # no atexit, no waiting for threads


def _watch(pid: int, limits: dict[str, int], jailed: bool) -> str:
    """Wait for the child; kill it when it makes too many files. Returns how it ended, "" for a good end."""
    base = confine.used_files(WRITABLE) if jailed else 0
    why = ""
    fd = os.pidfd_open(pid)
    try:
        while not select.select([fd], [], [], LOOK_EVERY)[0]:
            if jailed and confine.used_files(WRITABLE, base) > limits["files"]:
                why = "it made too many files"
                os.kill(pid, signal.SIGKILL)
                break
    finally:
        os.close(fd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if why or code == 0:
        return why
    return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it left with exit status {code}"


def _drain(fd: int) -> None:
    """Throw away what was meant for a child that ended."""
    while select.select([fd], [], [], 0)[0] and os.read(fd, 1 << 16):
        pass


def _clean() -> None:
    """Nothing is handed on from one exercise to the next."""
    for folder in WRITABLE:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
