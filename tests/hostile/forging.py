"""Cheats inside the process that runs the answers: patched modules, kernel hooks, forged messages, seized callers."""

from __future__ import annotations

from hostile import forging_1, forging_2, forging_3
from hostile.model import Trick

TRICKS: tuple[Trick, ...] = (
    *forging_1.TRICKS,
    *forging_2.TRICKS,
    *forging_3.TRICKS,
)
