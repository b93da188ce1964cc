"""What a learner reads about one exercise: which kinds of case are right, and the likely mistake where one is not.

No held-out input and no expected value stands in it: cases are named by their kind.
"""

from __future__ import annotations

from .grade import NOT_ISOLATED, Report
from .verdict import ExerciseVerdict


def text(report: Report, name: str) -> str:
    """The lines for one exercise."""
    verdict = report.verdicts[name]
    lines = [f"{name}: {_points(verdict.points)} of {_points(verdict.possible)} points"]
    if not report.isolated:
        lines.insert(0, NOT_ISOLATED)
    if verdict.note:
        lines.append(verdict.note[:1].upper() + verdict.note[1:] + ".")
    lines += _groups(verdict)
    lines += [f"Noted: {fact}." for fact in report.facts if fact.startswith(f"{name}: ")]
    return "\n".join(lines) + "\n"


def _groups(verdict: ExerciseVerdict) -> list[str]:
    lines: list[str] = []
    told = {verdict.note}
    width = max(len(group.name) for group in verdict.groups)
    for group in verdict.groups:
        points = f"{_points(group.points if group.right else 0)} of {_points(group.points)}"
        lines.append(f"  {group.name:{width}}  {points:>11}  {'right' if group.right else 'not right'}")
        if not group.right and group.why not in told:
            lines.append(f"      likely mistake: {group.why}")
            told.add(group.why)
        if group.seen and group.seen not in told:
            lines.append(f"      what came: {group.seen}")
            told.add(group.seen)
    return lines


def _points(points: float) -> str:
    return f"{points:g}"
