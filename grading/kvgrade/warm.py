"""The grader's end of the warm process (`kvgrade.inside.warm`): one per grader process and kind, started when needed.

Importing numpy takes a tenth of a second and torch more than one. The warm process does it once for all answers.
It is a program of its own that the system's dynamic loader runs. So /proc/self/exe, the one file of the host that a
process inside a jail still has hold of, is the loader, which belongs to root, and not an interpreter that may belong
to whoever grades.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import walls
from .jail import last_words

START = Path(__file__).resolve().parent / "inside" / "start.py"
_MOMENT = 0.2  # seconds from the end of its files to its own
_PATIENCE = 60.0  # seconds for a request to be taken: imports come first

_running: dict[str, Warm] = {}
_lock = threading.Lock()


class Warm:
    """One warm process."""

    def __init__(self, kind: str) -> None:
        self.owner = os.getpid()
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(_PATIENCE)
        with theirs:
            self.process = subprocess.Popen(
                [*_interpreter(), "-I", "-B", str(START), kind, "warm", str(theirs.fileno())],
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                env=walls.environment(home=walls.HOME, temp="/tmp"),  # the jail's: what is forked keeps it
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.stop)

    def alive(self) -> bool:
        """Whether it runs and is this process' own: not its parent's, when this process was forked."""
        return self.owner == os.getpid() and self.process.poll() is None

    def stop(self) -> None:
        self.channel.close()
        if self.owner == os.getpid():
            atexit.unregister(self.stop)
            self.process.kill()  # it holds nothing that could be lost
            self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()


def enter(kind: str, handle: int, request: Mapping[str, Any], pipes: Sequence[int]) -> None:
    """Ask for a process in a jail: see `kvgrade.inside.enter`. It answers on its own pipes.

    Raises OSError when the warm process ends before it has the request.
    """
    with _lock:
        found = _running.get(kind)
        if found is not None and not found.alive():
            found.stop()
            found = None
        if found is None:
            found = _running[kind] = Warm(kind)
        socket.send_fds(found.channel, [json.dumps(request).encode()], [handle, *pipes])


def ended(kind: str) -> str | None:
    """The last words of the warm process when it has ended, or is about to; None when it lives."""
    with _lock:
        found = _running.get(kind)
        if found is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            found.process.wait(_MOMENT)
        return None if found.alive() else last_words(found.process)


def pid(kind: str) -> int | None:
    """The number of the running warm process."""
    with _lock:
        found = _running.get(kind)
        return found.process.pid if found and found.alive() else None


def _interpreter() -> list[str]:
    return [walls.loader(), "--argv0", walls.python(), os.path.realpath(walls.python())]
