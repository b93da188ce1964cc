"""The catalogue: every hostile and odd hand-in of unit 01, in a fixed order.

from hostile import tricks
m = tricks.material(ROOT)
for trick in tricks.all():
    tricks.place(trick.make(m), folder / trick.name / tricks.UNIT)
"""

from __future__ import annotations

from hostile import cells, forging, lying, oddities, reading, resources, unreadable, writing
from hostile.model import (
    EXERCISES,
    MAIN,
    UNIT,
    Expect,
    Fifo,
    HandIn,
    Link,
    Material,
    Trick,
    material,
    place,
)

__all__ = [
    "EXERCISES",
    "MAIN",
    "UNIT",
    "Expect",
    "Fifo",
    "HandIn",
    "Link",
    "Material",
    "Trick",
    "all",
    "material",
    "named",
    "place",
]

THEMES = (oddities, cells, lying, forging, reading, writing, resources, unreadable)


def all() -> list[Trick]:
    """Every trick, honest ones first, then by theme."""
    return [trick for theme in THEMES for trick in theme.TRICKS]


def named(*names: str) -> list[Trick]:
    """These tricks, in the order of the names."""
    by_name = {trick.name: trick for trick in all()}
    return [by_name[name] for name in names]
