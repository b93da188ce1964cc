"""What a learner reads about one exercise: which kinds of case are right, and the likely mistake where one is not.

No held-out input and no expected value stands in it: cases are named by their kind.
"""

from __future__ import annotations

from collections.abc import Sequence

from .grade import NOT_ISOLATED, Report
from .results import Group
from .verdict import NOT_ATTEMPTED, ExerciseVerdict


def text(report: Report, name: str, facts: Sequence[str] = (), unreadable: str = "") -> str:
    """The lines for one exercise. `facts`: what was seen in the hand-in itself; those on this exercise are told."""
    verdict = report.verdicts[name]
    lines = [] if report.isolated else [NOT_ISOLATED]
    lines.append(f"{name}: {_points(verdict.points)} of {_points(verdict.possible)} points")
    if unreadable:
        lines.append(unreadable)
    elif verdict.note:
        note = verdict.note[:1].upper() + verdict.note[1:]
        lines.append(note if note.endswith((".", "?", "!")) else note + ".")
    if not all(group.mistake == NOT_ATTEMPTED for group in verdict.groups):
        lines += _groups(verdict)
    other = [fact for fact in facts if ": " not in fact or fact.partition(": ")[0] not in report.verdicts]
    mine = [fact for fact in (*facts, *report.facts) if fact.startswith(f"{name}: ")]
    lines += [f"Noted: {fact}" for fact in dict.fromkeys([*mine, *other])]
    return "\n".join(lines) + "\n"


def _groups(verdict: ExerciseVerdict) -> list[str]:
    lines: list[str] = []
    told = {verdict.note}
    width = max(len(group.name) for group in verdict.groups)
    for group in verdict.groups:
        points = f"{_points(group.points if group.right else 0)} of {_points(group.points)}"
        lines.append(f"  {group.name:{width}}  {points:>11}  {'right' if group.right else 'not right'}")
        if group.right:
            continue
        if group.seen and group.seen not in told:
            lines.append(f"      what came: {group.seen}")
            told.add(group.seen)
        if group.why in told:
            lines.append("      as above")
        else:
            lines.append(f"      {_label(group)}: {group.why}")
            told.add(group.why)
    return lines


def _label(group: Group) -> str:
    """What `why` is: the mistake that explains the group, a limit that was hit, or only the rule that was tested."""
    if group.mistake in ("stopped", "closed"):
        return "why"
    return "likely mistake" if group.mistake else "the rule"


def _points(points: float) -> str:
    return f"{points:g}"
