"""Argument checks shared by the arithmetic: each returns the value or raises a ValueError sentence."""

import math
import operator
from typing import Any


def whole(name: str, value: Any, least: int = 0) -> int:
    """An integer of at least `least`. A float with an integral value counts, a boolean or 2.5 does not."""
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, got {value}")
    try:
        number = operator.index(value)
    except TypeError:
        if not isinstance(value, float) or not value.is_integer():
            raise ValueError(f"{name} must be a whole number, got {value!r}") from None
        number = int(value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def amount(name: str, value: Any, positive: bool = False) -> int | float:
    """A finite number, zero or more; more than zero when `positive`. Integers stay integers, so results stay exact."""
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a number, got {value}")
    try:
        number: int | float = operator.index(value)
    except TypeError:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise ValueError(f"{name} must be a finite number {'above zero' if positive else 'of at least 0'}, got {value}")
    return number
