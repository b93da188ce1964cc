"""The part of the report on what was seen beside the answers: facts by student, repairs, and how long grading took."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from .pages import code, table, text
from .results import Result

# Facts of handin.py and session.py that tell of work that was put in order, or of what was not found.
_REPAIRS = (
    (re.compile(r"\d+ answer cells were found"), "several answer cells of one exercise; one was chosen"),
    (re.compile(r"no answer cell was found"), "an answer cell that is gone"),
    (re.compile(r"^made from release"), "a notebook of an earlier release"),
    (re.compile(r"was not read$"), "an answer too long to read"),
    (re.compile(r"found by its (marker|first line)"), "an answer cell found by its first line"),
)
N_SLOWEST = 5


def section(found: Mapping[str, Result], names: Sequence[str]) -> str:
    """What was seen, in two tables: how often files had to be put in order, and all facts by student."""
    facts = [
        (student, *_split(fact, names)) for student, result in found.items() for fact in dict.fromkeys(result.facts)
    ]
    if not facts:
        return "<h3>What was seen</h3><p>Nothing out of the ordinary.</p>"
    repairs: dict[str, set[str]] = {}
    for student, _, fact in facts:
        if kind := _repair(fact):
            repairs.setdefault(kind, set()).add(student)
    parts = ["<h3>What was seen</h3>"]
    if repairs:
        rows = [[text(kind), str(len(who))] for kind, who in sorted(repairs.items(), key=lambda i: (-len(i[1]), i[0]))]
        parts.append(table("Files that were put in order", ["what", "hand-ins"], rows, (1,)))
    rows = [[code(student), code(name) if name else "", text(fact)] for student, name, fact in facts]
    kinds = Counter(student for student, *_ in facts)
    summary = f"{len(facts)} facts on {len(kinds)} hand-ins"
    listed = table("All facts", ["student", "exercise", "fact"], rows)
    parts.append(f"<details{' open' if len(facts) <= 40 else ''}><summary>{summary}</summary>{listed}</details>")
    return "\n".join(parts)


def _split(fact: str, names: Sequence[str]) -> tuple[str, str]:
    """(exercise or "", fact)."""
    name, colon, rest = fact.partition(": ")
    return (name, rest) if colon and name in names else ("", fact)


def _repair(fact: str) -> str:
    return next((kind for pattern, kind in _REPAIRS if pattern.search(fact)), "")


def seconds(result: Result) -> float | None:
    """How long a hand-in took; None where nothing was run, or measured."""
    if result.unreadable:
        return None
    if "seconds" in result.measured:
        return float(result.measured["seconds"])
    return float(sum(result.measured.values())) if result.measured else None


def times(found: Mapping[str, Result]) -> str:
    """Median, range, and the slowest."""
    took = {student: one for student, result in found.items() if (one := seconds(result)) is not None}
    if not took:
        return ""
    values = sorted(took.values())
    slowest = sorted(took.items(), key=lambda item: (-item[1], item[0]))[:N_SLOWEST]
    rows = [[code(student), f"{one:.1f}"] for student, one in slowest]
    return (
        f"<h3>Times</h3><p>Seconds per hand-in that could be read: median {statistics.median(values):.1f}, "
        f"from {values[0]:.1f} to {values[-1]:.1f}, {sum(values):.0f} in all.</p>"
        + table("The slowest", ["student", "seconds"], rows, (1,))
    )
