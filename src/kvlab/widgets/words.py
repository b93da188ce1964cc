"""Sentences that several widgets share."""

from __future__ import annotations

from collections.abc import Mapping


def counted(number: int, noun: str) -> str:
    """The number with its noun: "1 token", "2 tokens", "1,024 tokens"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def texts_beside(texts: Mapping[str, str], right: Mapping[str, str]) -> tuple[str, ...]:
    """One line for each text by its name, and below it the right one where that is known and another."""
    lines = []
    for name, text in texts.items():
        lines.append(f"{name}: {text!r}")
        if right.get(name, text) != text:
            lines.append(f"{name}, without the fault: {right[name]!r}")
    return tuple(lines)
