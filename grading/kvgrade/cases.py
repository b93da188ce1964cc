"""The format of held-out cases: `grading/cases/<unit>/<exercise>.py` holds an `EXERCISE`.

A case is a script of steps (see `inside/steps.py`) without expected values: these come from running the same script on
the exercise's oracle, in the grader's own process. A mistake is an oracle that is wrong in one named way; an answer
that fails a case just as a mistake does gets that mistake's diagnosis.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .inside import steps, wire
from .units import ROOT

Step = dict[str, Any]
Outcome = dict[str, Any]


def call(name: str, *args: Any, **kwargs: Any) -> Step:
    """Call a function of the answer, or make an object of its class."""
    return {"do": "call", "name": name, "args": args, "kwargs": kwargs}


def method(on: int, name: str, *args: Any, **kwargs: Any) -> Step:
    """Call a method of the object that step `on` made."""
    return {"do": "method", "on": on, "name": name, "args": args, "kwargs": kwargs}


def get(on: int, name: str) -> Step:
    """Read an attribute of the object that step `on` made."""
    return {"do": "get", "on": on, "name": name}


def shares(a: Sequence[int], b: Sequence[int]) -> Step:
    """Whether two earlier results share memory; `[3, 0]` is the first part of the result of step 3."""
    return {"do": "shares", "a": list(a), "b": list(b)}


def unchanged(of: int) -> Step:
    """Whether the arguments of step `of` are as they were before it."""
    return {"do": "unchanged", "of": of}


def observe() -> Step:
    """What the case's world saw so far (`World.observe`)."""
    return {"do": "observe", "name": OBSERVE}


OBSERVE = "observe"


class World(Protocol):
    """The other side of callbacks and handles. It lives in the grader; each run of a case gets a fresh one.

    `functions` are called with decoded arguments that may be anything: they raise ValueError for what they can't use.
    """

    functions: Mapping[str, Callable[..., Any]]

    def observe(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class Case:
    """One script, equal to itself alone.

    `extra_memory`: bytes that the answer may take beyond what the process has before it starts.
    """

    steps: tuple[Step, ...]
    world: Callable[[], World] | None = None
    extra_memory: int | None = None

    def __init__(self, *steps: Step, world: Callable[[], World] | None = None, extra_memory: int | None = None) -> None:
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "extra_memory", extra_memory)


@dataclass(frozen=True)
class Group:
    """Cases of one kind; all of them must be right for its points. `why` is the diagnosis when no mistake fits."""

    name: str
    points: float
    why: str
    make: Callable[[np.random.Generator], Sequence[Case]]


@dataclass(frozen=True)
class Mistake:
    """A wrong oracle with a name and the sentence that a learner who made it reads; several ways to make it count."""

    name: str
    why: str
    names: Mapping[str, Any] | Sequence[Mapping[str, Any]]

    @property
    def ways(self) -> Sequence[Mapping[str, Any]]:
        return [self.names] if isinstance(self.names, Mapping) else self.names


@dataclass(frozen=True, eq=False)
class Exercise:
    """How one exercise is marked. It is equal to itself alone.

    names: the oracle, as the names that an answer defines. rtol, atol: for floats; integers and booleans are exact.
    seconds: wall clock for one case. compare: replaces the comparison of one case where several results are right; it
    gets the answer's outcomes and the oracle's and returns whether they agree.
    """

    name: str
    names: Mapping[str, Any]
    groups: Sequence[Group]
    mistakes: Sequence[Mistake] = ()
    rtol: float = 1e-3
    atol: float = 1e-4
    seconds: float = 10.0
    compare: Callable[[Case, list[Outcome], list[Outcome]], bool] | None = None
    closed: Sequence[str] = field(default_factory=tuple)

    @property
    def points(self) -> float:
        return sum(group.points for group in self.groups)


def draw(exercise: Exercise, seed: int) -> dict[str, list[Case]]:
    """The cases of every group, by group name. A group's inputs depend on the seed and its own name alone."""
    return {group.name: list(group.make(_generator(seed, exercise.name, group.name))) for group in exercise.groups}


def run_here(case: Case, names: Mapping[str, Any]) -> list[Outcome]:
    """The outcomes of a script on trusted code, in this process. Inputs are copies, as they are in the jail."""
    world = case.world() if case.world else None
    script = steps.plain(list(case.steps), _tensor)

    def callback(name: str) -> Any:
        if world is None:
            raise ValueError(f"the case calls {name}, but it has no world")
        return world.observe if name == OBSERVE else world.functions[name]

    return steps.run(names, script, callback, tensor=_tensor)


@lru_cache(maxsize=1000)
def wanted(exercise: Exercise, case: Case) -> list[Outcome]:
    """The oracle's outcomes: run once for all hand-ins of a class in this process, so they must stay as they are."""
    return run_here(case, exercise.names)


def _tensor(array: np.ndarray) -> Any:
    import torch  # here: cases in numpy alone save its second

    return torch.from_numpy(array)


@cache
def load(unit: str, root: Path = ROOT) -> dict[str, Exercise]:
    """The exercises of a unit by name, with their closed functions.

    Raises ValueError when the cases and the unit do not fit together: another set of exercises, or other points.
    """
    folder = root / "grading" / "cases" / unit
    paths = sorted(folder.glob("*.py"))
    if not paths:
        raise ValueError(f"there are no cases for {unit}: {folder.relative_to(root)} holds none")
    found: dict[str, Exercise] = {path.stem: _read(path) for path in paths}
    rows = json.loads((root / "data" / "exercises.json").read_text(encoding="utf-8"))
    rows = {name: row for name, row in rows.items() if row["unit"] == unit}
    if set(found) != set(rows):
        raise ValueError(f"{folder.name} has cases for {sorted(found)}, the unit has {sorted(rows)}")
    for name, exercise in found.items():
        if abs(exercise.points - rows[name]["points"]) > 1e-9:
            raise ValueError(f"{name}: its groups give {exercise.points:g} points, its check {rows[name]['points']}")
        if len({group.name for group in exercise.groups}) < len(exercise.groups):
            raise ValueError(f"{name}: two groups have the same name")
        object.__setattr__(exercise, "closed", tuple(rows[name]["closed"]))
    return {name: found[name] for name in rows}


def _read(path: Path) -> Exercise:
    spec = importlib.util.spec_from_file_location(f"kvgrade_cases_{path.parent.name}_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    exercise: Exercise = module.EXERCISE
    if exercise.name != path.stem:
        raise ValueError(f"{path} holds the cases of {exercise.name}: name the file after the exercise")
    return exercise


def _generator(seed: int, *names: str) -> np.random.Generator:
    digest = hashlib.sha256("/".join([str(seed), *names]).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


__all__ = [
    "Case",
    "Exercise",
    "Group",
    "Mistake",
    "Outcome",
    "Step",
    "World",
    "call",
    "draw",
    "get",
    "load",
    "method",
    "observe",
    "run_here",
    "shares",
    "unchanged",
    "wanted",
    "wire",
]
