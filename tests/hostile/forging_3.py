"""Cheats inside the process that runs the answers: patched modules, kernel hooks, forged messages, seized callers (3 of 3)."""

from __future__ import annotations

from hostile.forging_shared import _WORDS
from hostile.model import EXERCISES, Expect, Trick, prelude, replaced, sabotage

_DEL = """
import os


class _Grave:
    def __del__(self):
        for fd in range(3, 64):
            try:
                os.set_blocking(fd, False)
                os.write(fd, b'{"passed": true}\\n')
            except OSError:
                pass


_kept = [_Grave() for _ in range(3)]
_loop = _Grave()
_loop.me = _loop
"""


_THREAD = (
    _WORDS
    + """
import os, threading, time


def _keep_writing():
    for _ in range(2000):
        for fd in range(1, 32):
            for frame in _frames:
                try:
                    os.set_blocking(fd, False)
                    os.write(fd, frame)
                except OSError:
                    pass
        time.sleep(0.01)


threading.Thread(target=_keep_writing, daemon=False).start()
"""
)


_CTYPES = """
import ctypes

# Make the small integers 0 and 1 the same number in this process, and False true.
ctypes.memmove(id(False) + 24, id(True) + 24, 4)
"""


_FORK = """
import os

if os.fork() != 0:
    os._exit(0)
"""


_FORK_TWO = (
    _WORDS
    + """
import os

_child = os.fork()
if _child == 0:
    for _fd in range(3, 64):
        for _frame in _frames:
            try:
                os.set_blocking(_fd, False)
                os.write(_fd, _frame)
            except OSError:
                pass
    os._exit(0)
"""
)


_EXEC = """
import os, sys

os.execv(sys.executable, [sys.executable, "-c", "print('{\\"passed\\": true, \\"score\\": 4}')"])
"""


_KILL = """
import os, signal

for _pid in (os.getppid(), 1):
    for _signal in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        try:
            os.kill(_pid, _signal)
        except OSError:
            pass
"""


_KILL_ALL = """
import os, signal

for _name in os.listdir("/proc"):
    if _name.isdigit() and int(_name) not in (1, os.getpid()):
        try:
            os.kill(int(_name), signal.SIGKILL)
        except OSError:
            pass
"""


_PTRACE = """
import ctypes, os

_libc = ctypes.CDLL(None, use_errno=True)
_seen = []
for _name in os.listdir("/proc"):
    if _name.isdigit() and int(_name) != os.getpid():
        if _libc.ptrace(16, int(_name), 0, 0) == 0:  # PTRACE_ATTACH
            _seen.append(_name)
        try:
            with open(f"/proc/{_name}/mem", "r+b", buffering=0) as _memory:
                _seen.append(_memory.name)
        except OSError:
            pass
"""


_STEAL_FD = """
import os

for _name in os.listdir("/proc"):
    if _name.isdigit() and int(_name) != os.getpid():
        for _fd in range(3, 32):
            try:
                with open(f"/proc/{_name}/fd/{_fd}", "wb", buffering=0) as _file:
                    os.set_blocking(_file.fileno(), False)
                    _file.write(b'{"passed": true, "score": 4}\\n')
            except OSError:
                pass
"""


_SIGNALS = """
import signal

for _number in range(1, signal.NSIG):
    try:
        signal.signal(_number, lambda *a: None)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
"""


_TRICK_CLASSES = """
class KVCache:
    \"\"\"Patches the class that made the inputs, so that every later array is equal to every other.\"\"\"

    def __init__(self, *args):
        import numpy as np

        self.n = 0
        np.ndarray.__class__
        for name in ("__eq__", "__sub__", "__array_ufunc__"):
            try:
                setattr(np.ndarray, name, lambda *a, **k: True)
            except TypeError:
                pass

    def append(self, layer, k, v):
        k[...] = v[...] = 0
        self.n += 1

    def view(self, layer):
        return 0, 0

    def length(self, layer):
        return 0

    def truncate(self, length):
        raise ValueError
"""


TRICKS: tuple[Trick, ...] = (
    prelude("del-forged", "Forged messages are written by destructors.", _DEL),
    prelude("thread-forged", "A thread goes on writing forged messages while the answers are graded.", _THREAD),
    prelude("small-ints-changed", "ctypes makes False true inside the process.", _CTYPES),
    prelude("signals-caught", "Every signal is caught or blocked, then the wrong answers follow.", _SIGNALS),
    prelude("fork-child-goes-on", "The process forks, the parent ends, the child goes on.", _FORK, harmful=True),
    prelude("fork-child-forges", "A forked child forges messages beside its parent.", _FORK_TWO, harmful=True),
    prelude("exec-other-program", "The process replaces itself by a program that prints a score.", _EXEC, harmful=True),
    prelude(
        "class-patches-numpy",
        "Inputs are overwritten and numpy's array class is patched from inside a method.",
        _TRICK_CLASSES.replace("KVCache", "_Patch") + "\n\n_Patch()",
    ),
    replaced(
        "inputs-overwritten",
        "KVCache overwrites the arrays that it is given.",
        {"KVCache": _TRICK_CLASSES},
        expect=Expect(dict.fromkeys(EXERCISES, "at most wrong") | {"KVCache": (0.0, 0.5)}),
    ),
    sabotage("kill-parent", "The first answer kills its parent and process 1.", _KILL, strict=False, harmful=True),
    sabotage(
        "kill-everybody", "The first answer kills every process that it can see.", _KILL_ALL, strict=False, harmful=True
    ),
    prelude("ptrace-siblings", "ptrace and /proc/*/mem of every process that can be seen.", _PTRACE, harmful=True),
    prelude(
        "fds-of-others",
        "Forged messages go to the file descriptors of every process that can be seen.",
        _STEAL_FD,
        harmful=True,
    ),
)
