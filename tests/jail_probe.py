"""Code run as an answer is run: in a process that the warm one sent into a jail."""

import contextlib
import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers import require
from kvgrade import stripped, warm
from kvgrade.cases import call
from kvgrade.inside import wire
from kvgrade.inside.confine import Limits
from kvgrade.worker import Worker

TRIED = """
import ctypes, errno, os, sys

def tried(call, *args):
    try:
        call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    except BaseException as error:
        return type(error).__name__
    return "done"

"""


@contextlib.contextmanager
def begun(cell: str, with_torch: bool = False, limits: Limits | None = None) -> Iterator[Worker]:
    """A jail with an answer cell executed in it."""
    require("bubblewrap")
    limits = limits or Limits()
    deadline = time.monotonic() + 120
    worker = Worker(stripped.tree(()), limits, True, with_torch, deadline)
    try:
        job = {"cell": TRIED + cell, "closed": [], "limits": asdict(limits), "extra_memory": None}
        assert worker.begin("probe", job, deadline) is None
        yield worker
    finally:
        worker.stop()


def probe(code: str, **options: Any) -> Any:
    """What `code`, the body of a function, returns in a jail."""
    with begun("def probe():\n" + textwrap.indent(textwrap.dedent(code), "    "), **options) as worker:
        return ask(worker)


def ask(worker: Worker) -> Any:
    """Call `probe` of the answer."""
    reply = worker.ask(wire.pack({"steps": [call("probe")]}), time.monotonic() + 60, None)
    return reply["outcomes"][0]["value"]


def warm_pid(kind: str = "numpy") -> int:
    found = warm.pid(kind)
    assert found is not None
    return found


def children(pid: int) -> list[int]:
    """Process numbers, zombies too."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def open_files(pid: int | str = "self") -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
