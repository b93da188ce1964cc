"""Honest hand-ins in odd clothes. The answers are right, so they must get full marks, unless the text says otherwise."""

from __future__ import annotations

from hostile import oddities_1, oddities_2, oddities_3, oddities_4
from hostile.model import Trick

TRICKS: tuple[Trick, ...] = (
    *oddities_1.TRICKS,
    *oddities_2.TRICKS,
    *oddities_3.TRICKS,
    *oddities_4.TRICKS,
)
