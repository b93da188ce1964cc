"""How far a long run is: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, TextIO

EVERY = 5.0  # seconds


class Progress:
    """Counts up to `total`. Use as a context manager; nothing is shown when there is nothing to do."""

    def __init__(self, total: int, what: str, stream: TextIO | None = None) -> None:
        self.total, self.what, self.done = total, what, 0
        self.stream = stream or sys.stderr
        self._began = self._told = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if self.total and self.stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=self.total, desc=self.what, file=self.stream, unit="", dynamic_ncols=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if self._bar is not None:
            self._bar.update()
            return
        now = time.monotonic()
        if now - self._told >= EVERY or self.done == self.total:
            self._told = now
            left = (now - self._began) / self.done * (self.total - self.done)
            rest = f", about {_words(left)} left" if self.done < self.total else ""
            print(f"{self.what}: {self.done}/{self.total}{rest}", file=self.stream, flush=True)


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
