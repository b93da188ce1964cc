"""Argument checks that are shared: each returns the value or raises a ValueError that says what is wrong."""

import math
import operator
from typing import Any

LARGEST = 10**18  # no size that this course counts is larger, and products of a few of them still fit a float


def whole(name: str, value: Any, least: int = 0) -> int:
    """An integer from `least` to 10^18. A float with an integral value counts, a boolean or 2.5 does not."""
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, got {value}")
    try:
        number = operator.index(value)
    except TypeError:
        if not isinstance(value, float) or not value.is_integer():
            raise ValueError(f"{name} must be a whole number, got {value!r:.60}") from None
        number = int(value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {shown(number)}")
    if number > LARGEST:
        raise ValueError(f"{name} must be at most 10^18, got {shown(number)}")
    return number


def seed(value: Any) -> int:
    """SEED of a notebook: a whole number from 0 to 2^32 - 1, which every generator of random numbers here accepts."""
    try:
        number = whole("SEED", value)
    except ValueError:
        number = -1
    if not 0 <= number < 2**32:
        raise ValueError(
            f"SEED must be a whole number from 0 to {2**32 - 1}, got {value!r:.40}: {where_to_write('SEED = 0')}"
        )
    return number


def where_to_write(line: str) -> str:
    """What to do about a parameter of a notebook that can't be used; line: one that can."""
    return f"in the parameters cell write {line}, run it and the cells below"


def amount(name: str, value: Any, positive: bool = False) -> int | float:
    """A finite number, zero or more; more than zero when `positive`. Integers stay integers, so results stay exact."""
    if isinstance(value, bool | str | bytes):
        raise ValueError(f"{name} must be a number, got {value!r:.60}")
    try:
        number: int | float = operator.index(value)
    except TypeError:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a number, got {value!r:.60}") from None
    if isinstance(number, int) and number.bit_length() > 1023:
        raise ValueError(f"{name} must be a number that a float can hold, got {shown(number)}")
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise ValueError(f"{name} must be a finite number {'above zero' if positive else 'of at least 0'}, got {value}")
    return number


def shown(number: int) -> str:
    """The number for a message; of a very long one, which Python may refuse to print, only its length."""
    if number.bit_length() < 100:
        return str(number)
    return f"a number of {math.floor(number.bit_length() * math.log10(2)) + 1} digits"
