"""One at a time: a lock file that the system frees when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold the lock at `path`. Raises RuntimeError at once when another process has it; `what` is what it does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = file.read(20).strip()
            process = f" ({who})" if who.isdecimal() else ""
            raise RuntimeError(f"Another process{process} {what} here: wait until it is done, or end it.") from None
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
