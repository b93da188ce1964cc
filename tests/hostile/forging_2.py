"""Cheats inside the process that runs the answers: patched modules, kernel hooks, forged messages, seized callers (2 of 3)."""

from __future__ import annotations

from hostile.forging_shared import _CALLERS, _WORDS
from hostile.model import Trick, prelude

_EVERY_FD = (
    _WORDS
    + """
import os

for _fd in sorted(int(name) for name in os.listdir("/proc/self/fd")):
    for _frame in _frames:
        try:
            os.set_blocking(_fd, False)
            os.write(_fd, _frame)
        except OSError:
            pass
"""
)


_BLIND_FDS = """
import os

for _fd in range(3, 1024):
    try:
        os.set_blocking(_fd, False)
        os.write(_fd, os.urandom(1 << 16))
    except OSError:
        pass
"""


_READS_FDS = """
import fcntl, os

for _fd in range(3, 256):
    try:
        fcntl.fcntl(_fd, fcntl.F_SETFL, os.O_NONBLOCK)
        while os.read(_fd, 1 << 20):
            pass
    except OSError:
        pass
"""


_SENDERS = (
    _CALLERS
    + _WORDS
    + """
for _thing in _seize(4000):
    for _name in ("send", "reply", "write", "put", "send_bytes", "sendall"):
        _send = getattr(_thing, _name, None) if not isinstance(_thing, type) else None
        if callable(_send) and type(_thing).__module__ not in ("builtins",):
            for _what in (*_claims, *_frames):
                try:
                    _send(_what)
                except Exception:
                    break
    if callable(_thing) and getattr(_thing, "__name__", "").startswith(("send", "reply", "write", "respond")):
        try:
            _thing(_claims[0])
        except BaseException:
            pass
"""
)


_CALLER_CODE = (
    _CALLERS
    + """
import types


class _Fake(dict):
    def __getitem__(self, key): return True
    def get(self, key, default=None): return True


for _thing in _seize(4000):
    if isinstance(_thing, types.FunctionType) and "compare" in _thing.__name__ + _thing.__module__:
        _thing.__code__ = (lambda *a, **k: True).__code__
    if isinstance(_thing, dict) and "passed" in _thing:
        _thing["passed"] = True
    if isinstance(_thing, list) and _thing and isinstance(_thing[0], dict):
        for _item in _thing:
            _item.update(passed=True, score=4, points=4)
"""
)


_ATEXIT = (
    _WORDS
    + """
import atexit, os, threading


def _last():
    for fd in range(1, 64):
        for frame in _frames:
            try:
                os.set_blocking(fd, False)
                os.write(fd, frame)
            except OSError:
                pass


atexit.register(_last)
threading._register_atexit(_last) if hasattr(threading, "_register_atexit") else None
"""
)


_TRACE = """
import sys, threading


def _tracer(frame, event, arg):
    for name in ("passed", "ok", "correct", "expected", "score"):
        if name in frame.f_locals:
            frame.f_locals[name] = True
    return _tracer


sys.settrace(_tracer)
sys.setprofile(lambda *a: None)
threading.settrace(_tracer)
sys.excepthook = lambda *a: None
sys.unraisablehook = lambda *a: None
sys.displayhook = lambda value: print(4.0)
sys.breakpointhook = lambda *a: None
sys.addaudithook(lambda event, args: None)
"""


_GC = """
import gc, types


def _touch():
    for thing in gc.get_objects():
        try:
            if isinstance(thing, dict) and {"passed", "points"} & set(map(str, list(thing)[:20])):
                thing.update(passed=True, points=4, score=4)
            elif isinstance(thing, types.FunctionType) and thing.__name__ in ("close", "equal", "compare", "verdict"):
                thing.__code__ = (lambda *args, **kwargs: True).__code__
        except Exception:
            continue


_touch()
"""


_CLOSE = """
import os

os.closerange(0, 1024)
"""


# The first answer forges the replies of the later exercises, which are wrong.
_NEXT = _EVERY_FD.replace("NAME", "kv_cache_bytes")


_FAKE_PANEL = """
print("NAME: right")
print("all tests passed, 4 / 4")
print('{"NAME": {"passed": true, "score": 4}}')
"""


TRICKS: tuple[Trick, ...] = (
    prelude(
        "frames-rewrite-caller", "The callers' functions, results and dicts are rewritten to passed.", _CALLER_CODE
    ),
    prelude("frames-send", "Everything in the callers' frames that can send is told that all is right.", _SENDERS),
    prelude("gc-rewrite", "All objects of the process are searched for verdicts and comparisons, and changed.", _GC),
    prelude("trace-hooks", "A trace function sets passed and expected in every frame.", _TRACE),
    prelude("fds-forged", "Forged messages in five framings go to every open file descriptor.", _EVERY_FD),
    prelude("fds-forged-after", "The same, after the answer is defined.", _EVERY_FD, below=True),
    prelude("fds-garbage", "Random bytes go to every file descriptor.", _BLIND_FDS),
    prelude("fds-drained", "Everything that waits in any file descriptor is read away.", _READS_FDS),
    prelude("fds-closed", "All file descriptors are closed.", _CLOSE),
    prelude("next-exercise-forged", "Forged replies are sent in advance for the exercises that follow.", _NEXT),
    prelude("stdout-forged", "The output says that everything is right.", _FAKE_PANEL),
    prelude("atexit-forged", "Forged messages are written when the process ends.", _ATEXIT),
)
