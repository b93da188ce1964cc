"""The jail that a submission runs in: bubblewrap with its own namespaces, read-only files and size-limited memory.

The jail sees the interpreter, its libraries and what the caller mounts; of the host nothing else, and no network.
Answers run in a process that steps into it (`kvgrade.warm`, `kvgrade.inside.enter`). What happens inside one process
is limited by `kvgrade.inside.confine`, which the worker calls itself.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import walls
from .inside.confine import Limits, supported
from .walls import python

__all__ = ["Held", "NoJail", "hold", "last_words", "python", "start", "stop", "unavailable"]

_PATIENCE = 10.0  # seconds for the kernel to clear a killed jail away
_TRIAL = 60.0  # seconds for the first jail, on a busy machine


class NoJail(RuntimeError):
    """A jail did not start; the text is the reason."""


@dataclass(frozen=True)
class Held:
    """A jail that is ready and empty. `handle` is a pidfd of its first process; `entry` is what `enter` must know."""

    process: subprocess.Popen[bytes]
    handle: int
    entry: dict[str, Any]


def start(
    argv: Sequence[str],
    mounts: Mapping[str, Path],
    limits: Limits,
    isolated: bool = True,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `argv` in a jail of its own. stdin, stdout and stderr are unbuffered pipes; `stop` returns the last words.

    `mounts` says what is seen at which path inside, all of it read-only. `pass_fds` stay open inside under their
    numbers. End the jail with `stop`, from the thread that started it: the jail dies with that thread.

    With `isolated=False` the same command runs as a plain process with the same limits and none of the walls. Paths in
    `argv` that lie in a mount are then replaced by those of the host. Only for callers who were asked for it.
    """
    if isolated:
        stranger = walls.stranger_id()
        _check_mounts(mounts, stranger)
        return _start([*walls.bubblewrap(limits, mounts, stranger), *argv], {}, pass_fds)
    _check_mounts(mounts, None)
    temp = tempfile.gettempdir()
    command = [*walls.prlimit(limits), *(_host_path(word, mounts) for word in argv)]
    return _start(command, walls.environment(home=temp, temp=temp), pass_fds)


def hold(mounts: Mapping[str, Path], limits: Limits, deadline: float) -> Held:
    """Build a jail in which nothing runs but a `cat`, which echoes a byte when all walls stand.

    Raises NoJail with bubblewrap's reason when there is none at the deadline (of `time.monotonic`).
    """
    stranger = walls.stranger_id()
    _check_mounts(mounts, stranger)
    told, tell = os.pipe()
    try:
        command = [*walls.bubblewrap(limits, mounts, stranger, tell), walls.program("cat")]
        try:
            process = _start(command, {}, [tell])
        finally:
            os.close(tell)
        try:
            if not _echoes(process, deadline):
                late = time.monotonic() >= deadline
                raise NoJail(stop(process) or ("it was not ready in time" if late else "no reason given"))
            described: dict[str, int] = json.loads(os.read(told, 1 << 16))
            # Nobody else gets this number before bubblewrap is waited for, and the namespaces are compared inside.
            handle = os.pidfd_open(described["child-pid"])
        except BaseException:
            stop(process)
            raise
    finally:
        os.close(told)
    entry = {
        "spaces": {key.removesuffix("-namespace"): n for key, n in described.items() if key.endswith("-namespace")},
        "stranger": stranger,
        "limits": asdict(limits),
        "tasks": walls.most_tasks(limits, stranger),
        "home": walls.HOME,
    }
    return Held(process, handle, entry)


def _start(command: Sequence[str], environment: Mapping[str, str], pass_fds: Sequence[int]) -> subprocess.Popen[bytes]:
    """The environment is bubblewrap's own: it may be read in the jail as /proc/1/environ.

    All three streams are pipes: an open file of the host could be reached through /proc by others of the same user.
    """
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        bufsize=0,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd="/",
        env=environment,
        start_new_session=True,
        pass_fds=pass_fds,
    )


def _echoes(process: subprocess.Popen[bytes], deadline: float) -> bool:
    assert process.stdin and process.stdout
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"\n")
        if select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return bool(process.stdout.read(1))
    return False


def stop(process: subprocess.Popen[bytes]) -> str:
    """End the jail with everything in it, wait until it is gone, and close its pipes. Stopping twice does no harm.

    Returns the last line that was written to stderr, cut short: hostile text, if a learner's code could write it.
    """
    watched = []
    if process.poll() is None:  # else its number may belong to a stranger by now
        # bubblewrap asks to die with its parent, but does so too late for a parent that is killed at once. So kill its
        # child too: it is in the list or, younger than that, stopped in the process group.
        os.killpg(process.pid, signal.SIGSTOP)
        watched = [*_handles(process.pid), os.pidfd_open(process.pid)]
        os.killpg(process.pid, signal.SIGKILL)
        for handle in watched:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    for handle in watched:  # Popen.wait with a limit would sleep and look, sleep and look
        gone = select.poll()
        gone.register(handle, select.POLLIN)
        gone.poll(_PATIENCE * 1000)  # no longer: the kernel may hold it, killed as it is, and the caller must go on
        os.close(handle)
    process.poll()
    words = last_words(process)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return words


def last_words(process: subprocess.Popen[bytes]) -> str:
    """The last line of what lies in the pipe from stderr, cut short."""
    if process.stderr is None or process.stderr.closed:
        return ""
    os.set_blocking(process.stderr.fileno(), False)
    said = (process.stderr.read(1 << 16) or b"").decode(errors="replace")
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    return lines[-1][:300] if lines else ""


def unavailable() -> str | None:
    """None where jails work, found by starting one; else one sentence that says why not and what to do."""
    reason = supported()
    if reason:
        return reason
    needed = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux", "cat": "coreutils"}
    for command, package in needed.items():
        if shutil.which(command) is None:
            return f"The command {command} is missing: install Debian's package {package}."
    return _trial(walls.program("bwrap"))


@functools.cache
def _trial(bwrap: str) -> str | None:
    """Start a jail as answers get it, with an empty answer in it. One result per process and program."""
    from .worker import try_one  # it needs this module

    try:
        try_one(time.monotonic() + _TRIAL)
    except NoJail as problem:
        return _advice(str(problem))
    return None


def _advice(stderr: str) -> str:
    """What to do about a jail that did not start, by what bubblewrap or the process that stepped into it said."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    said = lines[-1].removesuffix(".") if lines else "no reason given"
    if "unknown option" in stderr.lower():
        return f"bubblewrap is too old ({said}): install version 0.8 or newer."
    if "setns" in stderr:
        return (
            f"No process may step into a jail here ({said}): use Linux 5.8 or newer, and if this is a container, allow "
            "the system call setns when it is started."
        )
    if any(word in stderr for word in ("namespace", "uid map", "Operation not permitted", "Permission denied")):
        return (
            f"bubblewrap may not start a jail here ({said}): let ordinary users make user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; "
            "in a container, allow them when it is started), and keep the interpreter where this user can read it."
        )
    return f"bubblewrap could not start a jail ({said}): mend that, or grade on another machine."


def _check_mounts(mounts: Mapping[str, Path], stranger: int | None) -> None:
    for inside, host in mounts.items():
        if not inside.startswith("/"):
            raise ValueError(f"{inside!r} is no absolute path: a mount needs one.")
        if not host.exists():
            raise FileNotFoundError(f"{host} does not exist, and was to be mounted at {inside}.")
        needed = 0o005 if host.is_dir() else 0o004
        if stranger is not None and host.stat().st_mode & needed != needed:
            raise PermissionError(f"{host} must be readable for other users, as the jail is one: chmod -R o+rX {host}")


def _host_path(word: str, mounts: Mapping[str, Path]) -> str:
    """A word of the command with its path inside replaced by the host's; the innermost mount decides."""
    for inside in sorted(mounts, key=walls.depth, reverse=True):
        if walls.is_in(word, inside):
            return str(mounts[inside]) + word[len(inside.rstrip("/")) :]
    return word


def _handles(pid: int) -> Iterator[int]:
    """A handle for each child of a process, to wait for its end. The jail's first process ends after all others."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return
    for child in children:
        try:
            yield os.pidfd_open(int(child))
        except ProcessLookupError:
            continue
