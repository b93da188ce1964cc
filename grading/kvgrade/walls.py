"""The walls of the jail: the command line that makes them. `kvgrade.jail` starts and stops what they are for.

Two ways in, by who runs the grader. An ordinary user gets a user namespace. Root needs none to build the jail, and
leaves it as a user that owns nothing on the host, another one for each jail: a root of any kind inside could write to
the kernel's settings and change the modes of devices. So for root all that is mounted must be readable for others.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import site
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from .inside.confine import Limits
from .units import ROOT

HOME = "/home/jail"
_PT_INTERP = 3  # the entry of an ELF file's program header that holds the loader's path
_SECRETS = ("kvlab", "kvgrade", "grading")  # installed copies would show learners the answers or the cases


def python() -> str:
    """The interpreter's path, the same inside and outside the jail."""
    return os.path.abspath(sys.executable)


def stranger_id() -> int | None:
    """For root, the id of a user that owns nothing; None for others, and for a root that is the only user there is."""
    if os.geteuid() != 0:
        return None
    with open("/proc/self/uid_map", encoding="ascii") as file:
        first, _, count = max((tuple(map(int, line.split())) for line in file), key=lambda ids: ids[2])
    if count < 1 << 16:
        return None
    count = min(count, 1 << 30)
    return first + count // 2 + secrets.randbelow(count // 4)


def prlimit(limits: Limits, tasks: int | None = None) -> list[str]:
    """A second belt around all processes, for what happens before or without `confine`."""
    words = [program("prlimit"), f"--as={limits.memory_bytes}", f"--cpu={limits.cpu_seconds}"]
    words += [f"--fsize={limits.file_bytes}", f"--nofile={limits.open_files}", "--core=0"]
    return words if tasks is None else [*words, f"--nproc={tasks}"]


def bubblewrap(limits: Limits, mounts: Mapping[str, Path], stranger: int | None, tell: int | None = None) -> list[str]:
    """The command in front of the one that is to run in the jail. tell: an open file to describe the jail in."""
    command = [program("bwrap"), "--die-with-parent", "--new-session", "--hostname", "grader", "--clearenv"]
    command += [] if tell is None else ["--info-fd", str(tell)]
    command += ["--cap-drop", "ALL"]
    if stranger is None:
        command += ["--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534"]
        command += ["--disable-userns", "--assert-userns-disabled"]
        last: list[str] = []
    else:
        command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # gone when the user has changed
        last = [program("setpriv"), f"--reuid={stranger}", f"--regid={stranger}", "--clear-groups", "--inh-caps=-all"]
    for name, value in environment(home=HOME, temp="/tmp").items():
        command += ["--setenv", name, value]
    command += [*_devices(), *_memory_folder("/dev/shm", limits.home_bytes)]
    command += [*_memory_folder("/tmp", limits.temp_bytes), *_memory_folder(HOME, limits.home_bytes), *_system()]
    command += _open_parents(mounts)
    for inside, host in sorted(mounts.items(), key=lambda mount: depth(mount[0])):
        command += ["--ro-bind", str(host), inside]
    # The root and /dev are file systems in memory without a limit on their size; /proc has the kernel's settings.
    for path in ("/dev", "/proc", "/"):
        command += ["--remount-ro", path]
    return [*command, "--chdir", HOME, "--", *last, *prlimit(limits, most_tasks(limits, stranger))]


def most_tasks(limits: Limits, stranger: int | None) -> int | None:
    """What to set RLIMIT_NPROC to; None where it would count what an ordinary user runs outside the jail too."""
    return limits.tasks if stranger is not None or _counts_per_namespace() else None


def _counts_per_namespace() -> bool:
    """Whether RLIMIT_NPROC counts a user's tasks per namespace (since Linux 5.14), and not all over the host."""
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return version is not None and (int(version[1]), int(version[2])) >= (5, 14)


def _memory_folder(path: str, size: int) -> list[str]:
    return ["--perms", "0777", "--size", str(size), "--tmpfs", path]


def _devices() -> list[str]:
    """/proc, and a /dev without terminals."""
    words = ["--proc", "/proc", "--tmpfs", "/dev"]
    for name in ("null", "zero", "full", "random", "urandom"):
        words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    return [*words, "--symlink", "/proc/self/fd", "/dev/fd"]


def _system() -> list[str]:
    """The system's programs and libraries, the interpreter, and empty folders over what learners must not read."""
    words: list[str] = []
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    shared = ("/etc/ld.so.cache", "/etc/alternatives")
    for file in shared:
        words += ["--ro-bind-try", file, file]
    roots = sorted({"/usr", sys.base_prefix, sys.prefix}, key=depth)
    steps = {root: ["--ro-bind", root, root] for root in roots}
    hidden = sorted(set(_hidden(roots)) - set(roots))
    for folder in hidden:
        steps[folder] = ["--tmpfs", folder]
    for link in _links_outside(roots):
        steps[link] = ["--ro-bind", os.path.realpath(link), link]
    # Outer folders first, so that nothing covers what lies in it: an environment may well lie in the repository.
    for where in sorted(steps, key=depth):
        words += steps[where]
    for folder in hidden:
        words += ["--remount-ro", folder]
    return [*_open_parents([*shared, *steps]), *words]


def _open_parents(paths: Iterable[str]) -> list[str]:
    """Make the folders that lead to paths, for all to pass through: left alone, bubblewrap closes /root to others."""
    parents = {str(parent) for path in paths for parent in Path(path).parents if parent != Path("/")}
    return [word for parent in sorted(parents, key=depth) for word in ("--perms", "0755", "--dir", parent)]


def _hidden(roots: Sequence[str]) -> Iterator[str]:
    """Folders in `roots` that hold answers: the repository, and installed copies of its packages."""
    if any(is_in(str(ROOT), root) for root in roots):
        yield str(ROOT)
    places = [*site.getsitepackages([sys.prefix, sys.base_prefix]), *map(sysconfig.get_path, ("purelib", "platlib"))]
    for place in sorted(set(places)):
        for name in _SECRETS:
            path = os.path.join(place, name)
            if os.path.isdir(path) and not os.path.islink(path) and any(is_in(path, root) for root in roots):
                yield path


def _links_outside(roots: Sequence[str]) -> Iterator[str]:
    """The steps from the interpreter's path to its real file that lie outside `roots`."""
    path = python()
    while True:
        if not any(is_in(path, root) for root in roots):
            yield path
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))


def environment(home: str, temp: str) -> dict[str, str]:
    return {
        "PATH": f"{os.path.dirname(python())}:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": temp,
        "USER": "jail",
        "LOGNAME": "jail",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",  # else each thread reserves address space that counts against the limit
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": temp,
    }


def loader() -> str:
    """The system's dynamic loader, the program that the interpreter's file names to be started by.

    Raises RuntimeError when the interpreter is no 64-bit ELF file that names one.
    """
    with open(os.path.realpath(python()), "rb") as file:
        head = file.read(64)
        if head[:5] == b"\x7fELF\x02":
            start, size, count = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
            for number in range(count):
                file.seek(start + number * size)
                kind, _, offset, _, _, length = struct.unpack("<IIQQQQ", file.read(40))
                if kind == _PT_INTERP:
                    file.seek(offset)
                    return file.read(length).rstrip(b"\0").decode()
    raise RuntimeError(f"{python()} does not use the system's dynamic loader: install another Python.")


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise RuntimeError(f"The command {name} is missing, and no jail works without it.")
    return path


def is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def depth(path: str) -> int:
    return len(Path(path).parts)
