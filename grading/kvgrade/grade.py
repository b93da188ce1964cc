"""Grade the answers of one hand-in: one jail, one verdict per exercise."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from . import cases, session, stripped, verdict
from .inside import confine

NOT_ISOLATED = "NOT ISOLATED: the answers ran with the grader's own rights; these marks are worth as much as that."


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


def closed_names(exercises: Mapping[str, cases.Exercise]) -> list[str]:
    """Everything that some exercise of a unit closes."""
    return list(dict.fromkeys(name for exercise in exercises.values() for name in exercise.closed))


def grade(
    unit: str,
    answers: Mapping[str, str],
    seed: int,
    isolated: bool = True,
    limits: confine.Limits | None = None,
    tree: Path | None = None,
    seconds: float = 75.0,
    case_seconds: float | None = None,
) -> Report:
    """Mark the answers (sources by exercise name) of one hand-in.

    tree: a folder made by `stripped.build`, so that a class shares one. seconds: wall clock for one exercise;
    case_seconds: for one case, in place of what each exercise says.
    Raises RuntimeError when answers can't be isolated on this host and `isolated` asks for it.
    """
    began = time.perf_counter()
    exercises = cases.load(unit)
    verdicts: dict[str, verdict.ExerciseVerdict] = {}
    facts: list[str] = []
    with session.Session(
        closed_names(exercises), isolated, limits, seconds, tree, case_seconds, _uses_torch(answers, exercises, seed)
    ) as running:
        for name, exercise in exercises.items():
            if name not in answers:
                verdicts[name] = verdict.nothing(exercise, "no answer: the cell is as it was handed out")
                continue
            drawn = cases.draw(exercise, seed)
            answered = running.run(exercise, answers[name], drawn)
            facts += answered.facts
            if answered.defined:
                verdicts[name] = verdict.judge(exercise, drawn, answered.groups, _note(answered))
            else:
                why = _note(answered) or f"the answer cell does not define {name}"
                verdicts[name] = verdict.nothing(exercise, why)
    return Report(unit, verdicts, facts, isolated, time.perf_counter() - began, running.times)


def _note(answered: session.Answered) -> str:
    """What the owner of a cell that stopped early should know."""
    error = answered.cell_error
    if error is None:
        return ""
    line = f" in line {error.get('line')}: {error.get('text')}" if error.get("line") else ""
    text = f"the answer cell stopped with {error.get('type')}: {error.get('message')}{line}"[:500]
    if error.get("type") == "NameError":
        text += ". Only this cell is collected: all that the answer needs goes into it"
    return verdict.clean(text, 600)


def _uses_torch(answers: Mapping[str, str], exercises: Mapping[str, cases.Exercise], seed: int) -> bool:
    """Whether to import torch ahead: a guess from the texts, since the import takes longer than all the rest."""
    if any("torch" in source or "kvlab" in source for source in answers.values()):
        return True
    import torch

    drawn = (cases.draw(exercises[name], seed) for name in answers if name in exercises)
    steps = (step for groups in drawn for group in groups.values() for case in group for step in case.steps)
    return any(isinstance(arg, torch.Tensor) for step in steps for arg in step.get("args", ()))


def shared_tree(unit: str) -> Path:
    """The `kvlab` that answers of a unit may import: made once per process, gone when it ends."""
    return Path(_tree(unit).name)


@cache
def _tree(unit: str) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="kvgrade-")
    Path(folder.name).chmod(0o755)  # as root the jail runs as another user
    stripped.build(Path(folder.name), closed_names(cases.load(unit)))
    return folder
