"""Values that a widget starts with: they must lie on its sliders, or picture and sliders would disagree."""

from __future__ import annotations

from kvlab.validate import amount, whole


def start_value(name: str, value: int, least: int, most: int) -> int:
    """A whole number from `least` to `most`. Raises ValueError for another one."""
    number = whole(name, value, least=least)
    if number > most:
        raise ValueError(f"{name} must be from {least:,} to {most:,} here, as the slider is, got {number:,}")
    return number


def start_amount(name: str, value: float, least: float, most: float) -> float:
    """A number from `least` to `most`. Raises ValueError for another one."""
    number = amount(name, value)
    if not least <= number <= most:
        raise ValueError(f"{name} must be from {least} to {most} here, as the slider is, got {number}")
    return number
