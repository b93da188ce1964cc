"""Hand-ins that use up time, memory, disk, output or processes, or end the process in every way there is.

The first answer does the damage; the other three are right and must keep their marks."""

from __future__ import annotations

from hostile import resources_1, resources_2
from hostile.model import Trick

TRICKS: tuple[Trick, ...] = (
    *resources_1.TRICKS,
    *resources_2.TRICKS,
)
