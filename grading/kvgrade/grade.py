"""Grade the answers of one hand-in: one jail, one verdict per exercise."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from . import cases, session, verdict
from .inside import confine
from .texts import clean

NOT_ISOLATED = "NOT ISOLATED: the answers ran with the grader's own rights; these marks are worth as much as that."
FAILED = "the grader itself failed here"
"""Stands in a fact where an exercise has no verdict through no fault of its answer."""


@dataclass(frozen=True)
class Report:
    """The verdicts of one hand-in by exercise, facts for the instructor, and where the seconds went."""

    unit: str
    verdicts: dict[str, verdict.ExerciseVerdict]
    facts: list[str] = field(default_factory=list)
    isolated: bool = True
    seconds: float = 0.0
    times: session.Times = field(default_factory=session.Times)

    @property
    def points(self) -> float:
        return sum(v.points for v in self.verdicts.values())

    @property
    def fault(self) -> str:
        """The fact that the grader itself failed at an exercise, "" when it did not."""
        return next((fact for fact in self.facts for name in self.verdicts if fact.startswith(f"{name}: {FAILED}")), "")


def grade(
    unit: str,
    answers: Mapping[str, str],
    seed: int,
    isolated: bool = True,
    limits: confine.Limits | None = None,
    seconds: float = 75.0,
    case_seconds: float | None = None,
    only: Collection[str] = (),
) -> Report:
    """Mark the answers (sources by exercise name) of one hand-in.

    seconds: wall clock for one exercise;
    case_seconds: for one case, in place of what each exercise says; only: exercises to mark, all when empty.
    Raises RuntimeError when answers can't be isolated on this host and `isolated` asks for it.
    """
    began = time.perf_counter()
    exercises = {name: exercise for name, exercise in cases.load(unit).items() if not only or name in only}
    verdicts: dict[str, verdict.ExerciseVerdict] = {}
    facts: list[str] = []
    with session.Session(isolated, limits, seconds, case_seconds, _uses_torch(answers, exercises, seed)) as running:
        for name, exercise in exercises.items():
            if name not in answers:
                verdicts[name] = verdict.nothing(
                    exercise, "no answer: the cell is as it was handed out, or no longer there"
                )
                continue
            try:
                verdicts[name], seen = _mark(running, exercise, answers[name], seed)
            except Exception as error:  # a fault of the grader's own costs this exercise its marks, and says so
                why = f"{FAILED} ({type(error).__name__}); tell whoever runs it"
                verdicts[name], seen = verdict.nothing(exercise, why), [f"{name}: {why}"]
            facts += seen
    return Report(unit, verdicts, facts, isolated, time.perf_counter() - began, running.times)


@lru_cache(maxsize=64)
def _drawn(exercise: cases.Exercise, seed: int) -> dict[str, list[cases.Case]]:
    """The cases of an exercise: drawn once per process, since all hand-ins of a class get the same ones."""
    return cases.draw(exercise, seed)


def _mark(
    running: session.Session, exercise: cases.Exercise, answer: str, seed: int
) -> tuple[verdict.ExerciseVerdict, list[str]]:
    """The verdict of one answer, and the facts that were seen."""
    drawn = _drawn(exercise, seed)
    answered = running.run(exercise, answer, drawn)
    if answered.defined:
        return verdict.judge(exercise, drawn, answered.groups, _note(answered), answer), answered.facts
    why = _note(answered) or f"the answer cell does not define {exercise.name}"
    return verdict.nothing(exercise, why), answered.facts


def _note(answered: session.Answered) -> str:
    """What the owner of a cell that stopped early should know."""
    error = answered.cell_error
    if error is None:
        return ""
    line = f" in line {error.get('line')}: {error.get('text')}" if error.get("line") else ""
    text = f"the answer cell stopped with {error.get('type')}: {error.get('message')}{line}"[:500]
    if error.get("type") == "NameError":
        text += ". Only this cell is collected: all that the answer needs goes into it"
    return clean(text, 600)


def _uses_torch(answers: Mapping[str, str], exercises: Mapping[str, cases.Exercise], seed: int) -> bool:
    """Whether to import torch ahead: a guess from the texts, since the import takes longer than all the rest."""
    if any("torch" in source or "kvlab" in source for source in answers.values()):
        return True
    drawn = [_drawn(exercises[name], seed) for name in answers if name in exercises]
    if "torch" not in sys.modules:  # who draws tensors has imported it
        return False
    import torch

    steps = (step for groups in drawn for group in groups.values() for case in group for step in case.steps)
    return any(isinstance(arg, torch.Tensor) for step in steps for arg in step.get("args", ()))
