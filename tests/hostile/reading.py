"""Cheats that read: solutions, hand-ins of others, the gradebook, secrets of the host, and closed functions."""

from __future__ import annotations

from hostile import reading_1, reading_2
from hostile.model import Trick

TRICKS: tuple[Trick, ...] = (
    *reading_1.TRICKS,
    *reading_2.TRICKS,
)
