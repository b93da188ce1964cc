"""The jail that a submission runs in: bubblewrap with its own namespaces, read-only files and size-limited memory.

The jail sees the interpreter, its libraries and what the caller mounts; of the host nothing else, and no network.
What happens inside one process of the jail is limited by `kvgrade.inside.confine`, which the worker calls itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from . import walls
from .inside.confine import Limits, supported
from .walls import python

__all__ = ["INSIDE", "python", "start", "stop", "unavailable"]

INSIDE = Path(__file__).resolve().parent / "inside"
"""The folder to mount at /grader."""

_PATIENCE = 10.0  # seconds for the kernel to clear a killed jail away


def start(
    argv: Sequence[str],
    mounts: Mapping[str, Path],
    limits: Limits,
    isolated: bool = True,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `argv` in a jail of its own. stdin and stdout are unbuffered pipes; `stop` returns the last words of stderr.

    `mounts` says what is seen at which path inside, all of it read-only. `pass_fds` stay open inside under their
    numbers. End the jail with `stop`, from the thread that started it: the jail dies with that thread.

    With `isolated=False` the same command runs as a plain process with the same limits and none of the walls. Paths in
    `argv` that lie in a mount are then replaced by those of the host. Only for callers who were asked for it.
    """
    stranger = walls.stranger_id() if isolated else None
    for inside, host in mounts.items():
        _check_mount(inside, host, stranger)
    environment: Mapping[str, str] = {}  # bubblewrap's own: it may be read in the jail as /proc/1/environ
    if isolated:
        command = [*walls.bubblewrap(limits, mounts, stranger), *argv]
    else:
        command = [*walls.prlimit(limits), *(_host_path(word, mounts) for word in argv)]
        environment = walls.environment(home=tempfile.gettempdir(), temp=tempfile.gettempdir())
    complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - a file never blocks, and has a largest size
    try:
        process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd="/",
            env=environment,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except BaseException:
        complaints.close()
        raise
    process.stderr = complaints
    return process


def stop(process: subprocess.Popen[bytes]) -> str:
    """End the jail with everything in it, wait until it is gone, and close its pipes. Stopping twice does no harm.

    Returns the last line that was written to stderr, cut short: hostile text, if a learner's code could write it.
    """
    watched = []
    if process.poll() is None:  # else its number may belong to a stranger by now
        # bubblewrap asks to die with its parent, but does so too late for a parent that is killed at once. So kill its
        # child too: it is in the list or, younger than that, stopped in the process group.
        os.killpg(process.pid, signal.SIGSTOP)
        watched = list(_handles(process.pid))
        os.killpg(process.pid, signal.SIGKILL)
        for handle in watched:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    try:
        process.wait(_PATIENCE)
        for handle in watched:
            gone = select.poll()
            gone.register(handle, select.POLLIN)
            gone.poll(_PATIENCE * 1000)
    except subprocess.TimeoutExpired:
        pass  # the kernel holds it, killed as it is: nothing more can be done, and the caller must go on
    for handle in watched:
        os.close(handle)
    words = _last_words(process.stderr)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return words


def unavailable() -> str | None:
    """None where jails work, found by starting one; else one sentence that says why not and what to do."""
    reason = supported()
    if reason:
        return reason
    for command, package in (("bwrap", "bubblewrap"), ("prlimit", "util-linux"), ("setpriv", "util-linux")):
        if shutil.which(command) is None:
            return f"The command {command} is missing: install Debian's package {package}."
    return _trial(walls.program("bwrap"))


@functools.cache
def _trial(bwrap: str) -> str | None:
    """Start the smallest jail there is. One result per process and program."""
    source = "import sys; sys.path.insert(0, '/grader'); import confine; confine.confine(confine.Limits())"
    command = [
        *walls.bubblewrap(Limits(), {"/grader": INSIDE}, walls.stranger_id()),
        python(),
        "-I",
        "-S",
        "-c",
        source,
    ]
    try:
        done = subprocess.run(command, capture_output=True, env={}, cwd="/", timeout=60, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"{bwrap} started no jail within a minute: try it by hand, or grade on another machine."
    return None if done.returncode == 0 else _advice(done.stderr.decode(errors="replace"))


def _advice(stderr: str) -> str:
    """What to do about a jail that did not start, by what bubblewrap or the interpreter said."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    said = lines[-1].removesuffix(".") if lines else "no reason given"
    if "unknown option" in stderr.lower():
        return f"bubblewrap is too old ({said}): install version 0.8 or newer."
    if any(word in stderr for word in ("namespace", "uid map", "Operation not permitted", "Permission denied")):
        return (
            f"bubblewrap may not start a jail here ({said}): let ordinary users make user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; "
            "in a container, allow them when it is started), and keep the interpreter where this user can read it."
        )
    return f"bubblewrap could not start a jail ({said}): mend that, or grade on another machine."


def _check_mount(inside: str, host: Path, stranger: int | None) -> None:
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


def _last_words(file: IO[bytes] | None) -> str:
    if file is None or file.closed:
        return ""
    file.seek(max(0, file.seek(0, os.SEEK_END) - 2000))
    lines = file.read(2000).decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1][:300] if said else ""
