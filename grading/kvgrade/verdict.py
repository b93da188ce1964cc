"""From outcomes to marks: which groups are right, and what the likely mistake is where one is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kvlab.check.compare import difference, to_array

from . import told
from .cases import Case, Exercise, Outcome, run_here, wanted
from .inside.wire import Opaque
from .results import Group
from .texts import clean

NOT_ATTEMPTED = "not attempted"
# Raised where results of another shape or type than was asked for are compared, such as a lone number for a list.
UNLIKE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class ExerciseVerdict:
    """The marks of one exercise. `note`: what its owner should know besides (no answer found, cell stopped early)."""

    name: str
    groups: list[Group] = field(default_factory=list)
    note: str = ""

    @property
    def points(self) -> float:
        return sum(group.points for group in self.groups if group.right)

    @property
    def possible(self) -> float:
        return sum(group.points for group in self.groups)

    @property
    def diagnoses(self) -> list[str]:
        """The distinct mistakes, in the order of the groups."""
        return list(dict.fromkeys(g.mistake or g.name for g in self.groups if not g.right))


def judge(
    exercise: Exercise,
    cases: Mapping[str, Sequence[Case]],
    answers: Mapping[str, Sequence[list[Outcome] | str]],
    note: str = "",
    source: str = "",
) -> ExerciseVerdict:
    """Marks of one exercise.

    answers: for each group the outcomes of each case, or a sentence where there are none; source: the answer cell.
    """
    rows = {
        group.name: [
            _row(exercise, case, outcomes)
            for case, outcomes in zip(cases[group.name], answers[group.name], strict=True)
        ]
        for group in exercise.groups
    }
    one = _one_mistake(exercise, [row for group in rows.values() for row in group])
    verdicts = []
    for group in exercise.groups:
        failed = [row for row in rows[group.name] if not row.right]
        if not failed:
            verdicts.append(Group(group.name, group.points, True))
            continue
        mistake, why = one or _diagnose(exercise, rows[group.name])
        seen = next((text for row in failed if (text := _seen(exercise, row, source))), "")
        verdicts.append(Group(group.name, group.points, False, mistake, why or group.why, seen))
    return ExerciseVerdict(exercise.name, verdicts, note)


class _Row(NamedTuple):
    """A case, what the answer made of it, and what the oracle makes of it."""

    case: Case
    outcomes: list[Outcome] | str
    wanted: list[Outcome]
    right: bool


def _row(exercise: Exercise, case: Case, outcomes: list[Outcome] | str) -> _Row:
    its = wanted(exercise, case)
    right = not isinstance(outcomes, str) and agrees(exercise, case, outcomes, its)
    return _Row(case, outcomes, its, right)


def nothing(exercise: Exercise, why: str) -> ExerciseVerdict:
    """The verdict where no case could be run."""
    groups = [Group(g.name, g.points, False, NOT_ATTEMPTED, why) for g in exercise.groups]
    return ExerciseVerdict(exercise.name, groups, why)


def agrees(exercise: Exercise, case: Case, outcomes: Sequence[Outcome], its: Sequence[Outcome]) -> bool:
    """Whether an answer's outcomes are right: `its` are the oracle's. What can't be compared is not right."""
    if len(outcomes) != len(its):
        return False
    try:
        if exercise.compare:
            return exercise.compare(case, list(outcomes), list(its))
        return all(_step_agrees(exercise, have, want) for have, want in zip(outcomes, its, strict=True))
    except UNLIKE:
        return False


def same_value(actual: Any, expected: Any, rtol: float, atol: float) -> bool:
    """Integers, booleans and texts exactly, floats within the tolerance; extra keys of a dict are ignored."""
    if expected is None or isinstance(expected, Opaque):  # no result, or an object that the case goes on to use
        return True
    if isinstance(actual, Opaque):
        return False
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping):
            return False
        return all(key in actual and same_value(actual[key], value, rtol, atol) for key, value in expected.items())
    array = to_array(expected)
    if array is None and isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple | np.ndarray) or getattr(actual, "ndim", 1) == 0:
            return False
        if len(actual) != len(expected):
            return False
        return all(same_value(a, e, rtol, atol) for a, e in zip(actual, expected, strict=True))
    exact = array is None or array.dtype.kind not in "fc"
    try:
        return difference(actual, expected, None if exact else rtol, 0.0 if exact else atol) is None
    except (ValueError, TypeError, OverflowError):  # ragged or monstrous values from the jail
        return False


def _step_agrees(exercise: Exercise, have: Outcome, want: Outcome) -> bool:
    if "raised" in want:
        return "raised" in have and want["raised"]["type"] in _bases(have)
    return "value" in have and same_value(have["value"], want.get("value"), exercise.rtol, exercise.atol)


def _bases(outcome: Outcome) -> Sequence[str]:
    error = outcome.get("raised")
    bases = error.get("mro") if isinstance(error, dict) else None
    return bases if isinstance(bases, list) else []


def _one_mistake(exercise: Exercise, rows: Sequence[_Row]) -> tuple[str, str] | None:
    """The mistake that gets every case of the exercise just as the answer does, if there is one."""
    if all(row.right for row in rows):
        return None
    for mistake in exercise.mistakes:
        if any(all(_explains(exercise, names, row) for row in rows) for names in mistake.ways):
            return mistake.name, mistake.why
    return None


def _diagnose(exercise: Exercise, rows: Sequence[_Row]) -> tuple[str, str]:
    """(name, sentence) of the mistake that explains a group, ("", "") when none does.

    A mistake that gets every case of the group just as the answer does comes before one that explains only those that
    failed: an answer may have two mistakes.
    """
    failed = [row for row in rows if not row.right]
    for row in failed:
        if isinstance(row.outcomes, str):
            return "stopped", clean(row.outcomes)
        for outcome in row.outcomes:
            if isinstance(outcome.get("closed"), str):
                return "closed", told.closed(outcome["closed"], exercise.closed)
    for explained in (rows, failed):
        for mistake in exercise.mistakes:
            if any(all(_explains(exercise, names, row) for row in explained) for names in mistake.ways):
                return mistake.name, mistake.why
    return "", ""


def _explains(exercise: Exercise, names: Mapping[str, Any], row: _Row) -> bool:
    would = run_here(row.case, names)
    if agrees(exercise, row.case, would, row.wanted) or row.right:
        return row.right and agrees(exercise, row.case, would, row.wanted)
    if isinstance(row.outcomes, str):
        return False
    if exercise.compare and agrees(exercise, row.case, row.outcomes, would):
        return True
    return all(_same_outcome(exercise, have, other) for have, other in zip(row.outcomes, would, strict=False))


def _same_outcome(exercise: Exercise, have: Outcome, other: Outcome) -> bool:
    """Whether an answer did at one step what a mistake does there: stricter than being right, since nothing is open."""
    if "raised" in other:
        return "raised" in have and other["raised"]["type"] in [*_bases(have), have["raised"].get("type")]
    if "value" not in have or "value" not in other:
        return False
    mine, its = have["value"], other["value"]
    if isinstance(its, Opaque) != isinstance(mine, Opaque):
        return False
    if isinstance(its, Mapping) and (not isinstance(mine, Mapping) or set(mine) != set(its)):
        return False
    return same_value(mine, its, exercise.rtol, exercise.atol)


def _seen(exercise: Exercise, row: _Row, source: str) -> str:
    """What could be seen at the first wrong step, in words that give no input and no expected value away."""
    if isinstance(row.outcomes, str):
        return ""
    for have, want in zip(row.outcomes, row.wanted, strict=False):
        if _step_agrees(exercise, have, want):
            continue
        if "raised" in have:
            return told.error(have["raised"], source, _names(exercise, row.case))
        if "unreadable" in have:
            return told.unreadable(have["unreadable"])
        if "raised" in want:
            return f"no {want['raised']['type']} was raised"
        if "value" in have:
            return told.result(have["value"], want.get("value"))
        return ""
    return ""


def _names(exercise: Exercise, case: Case) -> set[str]:
    """The names that the exercise asks for, and those of the arguments that it passes by name."""
    steps = case.steps
    return {exercise.name, *(s["name"] for s in steps if "name" in s), *(k for s in steps for k in s.get("kwargs", ()))}
