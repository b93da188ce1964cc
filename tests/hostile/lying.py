"""Cheats in what an answer returns: objects that lie, results without end, and answers that know the visible checks."""

from __future__ import annotations

from hostile import lying_1, lying_2
from hostile.model import Trick

TRICKS: tuple[Trick, ...] = (
    *lying_1.TRICKS,
    *lying_2.TRICKS,
)
