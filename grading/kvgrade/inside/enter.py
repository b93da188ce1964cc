"""Step into a jail that bubblewrap has built, leave every right behind, and look whether that is so.

The process comes from outside (see `warm`), where it had the grader's rights. So nothing is taken on trust: what it
holds afterwards is read from the kernel or tried, and at the first doubt it says so and ends, before any answer is
there. In the jail nobody else is yet, but bubblewrap's own processes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from . import confine, worker

PIPES = 4  # control in, control out, data in, data out
FIRST = 3  # the first pipe's number in the jail; 0, 1 and 2 lead to /dev/null
_SPACES = {  # name in /proc/self/ns: flag for setns
    "mnt": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}
_NEEDED = {"mnt", "uts", "ipc", "pid", "net"}  # cgroup namespaces do not exist everywhere
_INSIDE_ID = 65534  # of an ordinary user in its jail
_DROP_BOUNDING, _AMBIENT, _AMBIENT_CLEAR, _NO_NEW_PRIVILEGES = 24, 47, 4, 38  # for prctl
_CAPABILITIES_VERSION = 0x20080522


class Refused(RuntimeError):
    """The process is not as shut in as it must be."""


def step_in(request: Mapping[str, Any], fds: Sequence[int]) -> NoReturn:
    """The life of a forked process: join the jail, fork into its process namespace, serve.

    fds: a handle (pidfd) of a process in the jail, then the pipes. request: `spaces`, the numbers of the namespaces
    that bubblewrap made; `stranger`, the user to become, or None in a user namespace; `limits` and `tasks`; `home`;
    `course`, the folder with kvlab.
    """
    status = 1
    try:
        handle, *rest = fds
        pipes = list(rest)
        try:
            before = _outside()
            _join(handle, {*request["spaces"], *(["user"] if request["stranger"] is None else [])})
            if os.fork() == 0:  # only children are in the other process namespace
                _shut_in(request, pipes)
                _check(request, before)
                _forget_the_host()
                worker.main(pipes, request["course"], jailed=True)
            status = 0
        except Exception as error:
            worker.send(pipes[1], {"refused": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(status)


def _outside() -> dict[str, Any]:
    """What must be another one inside."""
    return {"root": _identity("/"), "user": os.stat("/proc/self/ns/user").st_ino}


def _join(handle: int, spaces: set[str]) -> None:
    if _NEEDED - spaces:
        raise Refused(f"bubblewrap made only the namespaces {sorted(spaces)}")
    flags = sum(flag for name, flag in _SPACES.items() if name in spaces)
    if _libc().setns(ctypes.c_int(handle), ctypes.c_int(flags)) != 0:
        raise _failed("setns")


def _shut_in(request: Mapping[str, Any], pipes: list[int]) -> None:
    """Keep the pipes, under new numbers, and nothing else that the process came with."""
    os.setsid()  # signals to its own group would else reach the processes outside
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.umask(0o022)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, FIRST + PIPES) for fd in pipes]
    for number, fd in enumerate(high):
        pipes[number] = os.dup2(fd, FIRST + number)
    worker.silence()
    for fd in _open_files() - set(range(FIRST + PIPES)):
        os.close(fd)
    _limit(confine.Limits(**request["limits"]), request["tasks"])
    stranger = request["stranger"]
    if stranger is not None:
        os.setgroups([])
    _drop_bounding_set()
    if stranger is not None:
        os.setresgid(stranger, stranger, stranger)
        os.setresuid(stranger, stranger, stranger)
    confine.prctl(_AMBIENT, _AMBIENT_CLEAR)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    if _libc().capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise _failed("capset")
    confine.prctl(_NO_NEW_PRIVILEGES, 1)
    confine.make_undumpable()
    os.chdir(request["home"])


def _limit(limits: confine.Limits, tasks: int | None) -> None:
    wanted = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
    }
    if tasks is not None:
        wanted[resource.RLIMIT_NPROC] = tasks
    for kind, value in wanted.items():
        resource.setrlimit(kind, (value, value))


def _drop_bounding_set() -> None:
    for capability in range(64):
        try:
            confine.prctl(_DROP_BOUNDING, capability)
        except OSError as error:
            if error.errno == errno.EINVAL and capability:
                return  # the kernel knows no more of them
            raise


def _check(request: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raises Refused unless the walls are around this process and it has no right to leave them."""
    spaces, stranger = request["spaces"], request["stranger"]
    for name, number in spaces.items():
        if os.stat(f"/proc/self/ns/{name}").st_ino != number:
            raise Refused(f"it is in another {name} namespace than the jail")
    if (os.stat("/proc/self/ns/user").st_ino == before["user"]) != (stranger is not None):
        raise Refused("it is in the wrong user namespace")
    if _identity("/") == before["root"] or os.getcwd() != request["home"]:
        raise Refused("it still has a folder of the host")
    status = _status()
    wanted = str(_INSIDE_ID if stranger is None else stranger)
    if set(status["Uid"].split() + status["Gid"].split()) != {wanted} or (stranger is not None and status["Groups"]):
        raise Refused("it is not the user that it has to be")
    if any(status[name].strip("0") for name in status if name.startswith("Cap")) or status["NoNewPrivs"] != "1":
        raise Refused("it has kept capabilities")
    if os.getsid(0) != os.getpid() or os.getpgrp() != os.getpid():
        raise Refused("it is in a session of the host")
    if _open_files() != set(range(FIRST + PIPES)):
        raise Refused("it has kept open files")
    if not unchangeable("/proc/self/exe"):
        raise Refused("it could change its program, a file of the host: grade as a user who does not own the system's")


def unchangeable(path: str) -> bool:
    """Whether this process can neither write to a file nor change its mode, found by trying."""
    mode = os.stat(path).st_mode & 0o7777
    for attempt in (lambda: os.close(os.open(path, os.O_WRONLY)), lambda: os.chmod(path, mode)):
        try:
            attempt()
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                return False  # "text file busy" holds only as long as somebody runs it
        else:
            return False
    return True


def _forget_the_host() -> None:
    """Import from what is in the jail only."""
    sys.path[:] = [folder for folder in sys.path if os.path.isdir(folder)]
    sys.path_importer_cache.clear()
    sys.modules["kvgrade"].__path__ = []


def _open_files() -> set[int]:
    """Numbers of the open files, without the one that looks."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue
        found.add(int(name))
    return found


def _identity(path: str) -> tuple[int, int]:
    state = os.stat(path)
    return state.st_dev, state.st_ino


def _status() -> dict[str, str]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        pairs = (line.split(":", 1) for line in file if ":" in line)
        return {name: value.strip() for name, value in pairs}


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _failed(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
