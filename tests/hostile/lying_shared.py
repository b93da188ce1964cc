"""What several of the `lying` files use."""

from __future__ import annotations

from hostile.model import (
    EXERCISES,
    Expect,
)

REFUSED = Expect("zero", flags=("refused",))


# Exercises whose cases ask for errors pay a careless answer something; never much.
LITTLE = Expect(dict.fromkeys(EXERCISES, (0.0, 0.5)), most=0.3)
