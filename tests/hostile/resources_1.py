"""Hand-ins that use up time, memory, disk, output or processes, or end the process in every way there is (1 of 2)."""

from __future__ import annotations

from hostile.model import Trick, sabotage

_HOG = """
def positions_processed(*args):
    held = []
    while True:
        held.append(bytearray(1 << 26))
        held[-1][::4096] = b"x" * len(held[-1][::4096])
"""


_HOG_HIDDEN = """
import mmap, os

_held = []
for _ in range(400):
    _map = mmap.mmap(-1, 1 << 26)
    for _at in range(0, 1 << 26, 4096):
        _map[_at] = 1
    _held.append(_map)
"""


_MEMFD = """
import os

_fds = []
for _ in range(200):
    _fd = os.memfd_create("x")
    for _ in range(64):
        os.write(_fd, bytes(1 << 20))
    _fds.append(_fd)
"""


_DISK = """
import itertools, os

for _folder in (".", "/tmp", "/dev/shm", os.path.expanduser("~"), "/var/tmp"):
    for _n in itertools.count():
        try:
            with open(os.path.join(_folder, f"filler-{_n}"), "wb") as _file:
                for _ in range(64):
                    _file.write(bytes(1 << 22))
        except OSError:
            break
"""


_FILES = """
import os

for _folder in (".", "/tmp", "/dev/shm", os.path.expanduser("~")):
    for _n in range(1_000_000):
        try:
            os.close(os.open(os.path.join(_folder, f"{_n}"), os.O_CREAT | os.O_WRONLY))
        except OSError:
            break
"""


_SPARSE = """
for _n in range(50):
    with open(f"sparse-{_n}", "wb") as _file:
        _file.truncate(1 << 40)
"""


_DEAF = """
import signal

for _number in range(1, signal.NSIG):
    try:
        signal.signal(_number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass


def positions_processed(*args):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
"""


_DEAF_AT_ONCE = """
import signal

for _number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGXCPU, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(_number, signal.SIG_IGN)
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""


_C_LOOP = """
import re

re.match(r"(a+)+$", "a" * 64 + "b")
"""


_BIG_POWER = """
def positions_processed(*args):
    return 7 ** (7 ** 12) % 10
"""


_KERNEL_CALLS = """
import os, time

os.nice(19)
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
except OSError:
    pass
try:
    import resource
    for _limit in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        resource.setrlimit(_limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (OSError, ValueError):
    pass


def positions_processed(*args):
    while True:
        pass
"""


_SLOW_DRIP = """
import time


def positions_processed(*args):
    for n in range(10**6):
        print(n, flush=True)
        time.sleep(0.5)
"""


_STOP = """
import os, signal

os.kill(os.getpid(), signal.SIGSTOP)
"""


TRICKS: tuple[Trick, ...] = (
    sabotage(
        "loop-at-once",
        "The first answer loops for ever while it is defined.",
        "while True:\n    pass\n",
        flags=("time", "killed"),
    ),
    sabotage(
        "loop-in-call",
        "The first answer loops for ever when it is called.",
        "def positions_processed(*args):\n    while True:\n        pass\n",
        flags=("time", "killed"),
    ),
    sabotage(
        "sleep",
        "The first answer sleeps for eleven days.",
        "import time\n\n\ndef positions_processed(*args):\n    time.sleep(10**6)\n",
        flags=("time", "killed"),
    ),
    sabotage(
        "loop-deaf",
        "The first answer ignores every signal and every exception and loops.",
        _DEAF,
        flags=("time", "killed"),
        harmful=True,
    ),
    sabotage(
        "loop-deaf-at-once",
        "The same, while it is defined, with SIGXCPU and SIGALRM ignored.",
        _DEAF_AT_ONCE,
        flags=("time", "killed"),
        harmful=True,
    ),
    sabotage(
        "loop-in-c",
        "A regular expression that never comes back holds the interpreter.",
        _C_LOOP,
        flags=("time", "killed"),
        harmful=True,
    ),
    sabotage(
        "big-power", "A power with billions of digits.", _BIG_POWER, flags=("time", "memory", "killed"), harmful=True
    ),
    sabotage(
        "limits-lifted",
        "The process lifts its limits and asks for real-time scheduling, then loops.",
        _KERNEL_CALLS,
        flags=("time", "killed"),
        harmful=True,
    ),
    sabotage("slow-drip", "A line of output every half second, for ever.", _SLOW_DRIP, flags=("time", "killed")),
    sabotage("stops-itself", "The process sends itself SIGSTOP.", _STOP, flags=("time", "killed"), harmful=True),
    sabotage(
        "memory-hog",
        "Memory is taken and written until there is no more.",
        _HOG,
        flags=("memory", "killed"),
        harmful=True,
    ),
    sabotage("memory-mapped", "Memory is taken by shared maps.", _HOG_HIDDEN, flags=("memory", "killed"), harmful=True),
    sabotage(
        "memory-files", "Memory is taken by files that have no name.", _MEMFD, flags=("memory", "killed"), harmful=True
    ),
    sabotage("disk-filler", "Every folder that can be written is filled.", _DISK, strict=False, harmful=True),
    sabotage(
        "million-files",
        "A million empty files in every folder that can be written.",
        _FILES,
        strict=False,
        harmful=True,
    ),
    sabotage("sparse-files", "Fifty files of a terabyte each, all holes.", _SPARSE, harmful=True),
)
