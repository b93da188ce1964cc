"""The engine's clock: the real one, or one that a test or a demonstration sets."""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Seconds since the start of a run."""

    def now(self) -> float: ...

    def wait_until(self, seconds: float) -> None:
        """Let time pass while there is nothing to do."""
        ...

    def worked(self, n_tokens: int) -> None:
        """A step of so many tokens has been computed."""
        ...


class RealClock:
    """What the machine takes. It starts when it is made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._start

    def wait_until(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds - self.now()))

    def worked(self, n_tokens: int) -> None:
        """The time has passed already."""


class StepClock:
    """Time by counting: a step costs `per_step` seconds and `per_token` for each of its tokens. The same everywhere."""

    def __init__(self, per_step: float = 1.0, per_token: float = 0.0) -> None:
        self.per_step, self.per_token = per_step, per_token
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def wait_until(self, seconds: float) -> None:
        self._now = max(self._now, seconds)

    def worked(self, n_tokens: int) -> None:
        self._now += self.per_step + self.per_token * n_tokens
