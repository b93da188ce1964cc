"""Words that follow a number."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number with its noun: "1 token", "2 tokens", "1,024 tokens"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
