"""The server's clock: real seconds, and a way to skip some, so that a cache entry expires without waiting."""

from __future__ import annotations

import threading
import time

from kvlab.validate import amount


class SkipClock:
    """Runs with the machine's clock and jumps ahead when told."""

    def __init__(self) -> None:
        self._skipped = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic() + self._skipped

    def advance(self, seconds: float) -> None:
        """Let so many seconds be over at once. Raises ValueError for a negative number."""
        seconds = amount("seconds", seconds)
        with self._lock:
            self._skipped += seconds


class StillClock(SkipClock):
    """Stands still until it is told to go on: the same figures in every run, for tests and recorded examples."""

    def now(self) -> float:
        return self._skipped
