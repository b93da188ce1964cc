"""Run one submission in a jail: send cases in, read outcomes out, and never wait longer than is allowed.

Everything that comes out of the jail is hostile: lengths, forms and times are checked here. What the learner's process
does to itself costs the case that was running, at most the exercise, never another exercise: each has a jail of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from . import jail, stripped
from .cases import Case, Exercise, Outcome
from .inside import confine, steps, wire
from .worker import Endless, EndlessCell, Gone, Worker
from .worker import outcomes as outcomes_of

START_SECONDS = 60.0  # for the jail and its imports, on a busy machine
CELL_SECONDS = 30.0  # for the answer cell itself, imports included
OVERTIME = "the time for this exercise was used up"
MOST_LOST = 3  # cases without an answer; then the rest of the exercise is not run


@dataclass
class Times:
    """Where the seconds of one submission went."""

    start: float = 0.0
    cells: float = 0.0
    cases: float = 0.0


@dataclass(frozen=True)
class Answered:
    """What one exercise gave: for each group the outcomes of its cases, or a sentence for a case that gave none."""

    groups: dict[str, list[list[Outcome] | str]]
    cell_error: dict[str, Any] | None = None
    defined: bool = True
    facts: list[str] = field(default_factory=list)


class Session:
    """One submission. Use as a context manager.

    seconds: wall clock for one exercise; case_seconds: for one case, in place of what each exercise says.
    with_torch: import torch ahead of the answers; without it an answer that uses torch imports it by itself.
    Raises RuntimeError when the host can't isolate answers and `isolated` asks for it.
    """

    def __init__(
        self,
        isolated: bool = True,
        limits: confine.Limits | None = None,
        seconds: float = 75.0,
        case_seconds: float | None = None,
        with_torch: bool = True,
    ) -> None:
        if isolated and (why := jail.unavailable()):
            raise RuntimeError(f"Answers can't be isolated here: {why}")
        self.isolated = isolated
        self.limits = limits or confine.Limits()
        self.seconds = seconds
        self.until = 0.0
        self.case_seconds = case_seconds
        self.with_torch = with_torch
        self.times = Times()
        self._worker: Worker | None = None
        self._for: Exercise | None = None  # whose jail is running

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, exercise: Exercise, cell: str, cases: Mapping[str, Sequence[Case]]) -> Answered:
        """Execute an answer cell and run the cases of every group on it.

        Answers to one exercise that are run one after the other share a jail: only the grader's own known answers are.
        """
        if self._for is not exercise:
            self._stop()
            self._for = exercise
        groups: dict[str, list[list[Outcome] | str]] = {}
        cell_error: dict[str, Any] | None = None
        lost, facts = 0, []
        self.until = time.monotonic() + self.seconds
        for group in exercise.groups:
            given: list[list[Outcome] | str] = []
            failed = False
            for case in cases[group.name]:
                if failed or lost >= MOST_LOST:  # the group is lost already, or the answer keeps ending its process
                    given.append(
                        "an earlier case of this kind was not answered"
                        if failed
                        else "not run: too many cases were not answered"
                    )
                    continue
                try:
                    outcomes, error = self._case(exercise, cell, case)
                    cell_error = error if error is not None else cell_error
                    given.append(outcomes)
                    lost += any("unreadable" in outcome for outcome in outcomes)  # it may take seconds each time
                except Endless as problem:
                    self._stop()
                    given.append(str(problem))
                    lost += MOST_LOST if isinstance(problem, EndlessCell) else 0
                except (Gone, wire.WireError, MemoryError) as problem:
                    self._stop()
                    given.append(str(problem) if isinstance(problem, Gone) else "the answer broke the protocol")
                if isinstance(given[-1], str):
                    failed, lost = True, lost + 1
                    facts.append(f"{exercise.name}: {given[-1]}")
            groups[group.name] = given
        self._let_go()
        return Answered(groups, cell_error, _defined(exercise, groups), facts)

    def _case(self, exercise: Exercise, cell: str, case: Case) -> tuple[list[Outcome], dict[str, Any] | None]:
        if case.extra_memory:
            self._let_go()  # a process that runs already keeps the memory that it may take
        try:
            error = self._ready(exercise, cell, case.extra_memory)
        except EndlessCell:
            raise
        except Endless:
            raise Endless(OVERTIME) from None
        assert self._worker
        limit = self.case_seconds or exercise.seconds
        began = time.monotonic()
        world = case.world() if case.world else None
        try:
            reply = self._worker.ask(_message(case), self._deadline(limit), world)
        except Endless:
            why = f"no answer within {limit:g} s: is there a loop without an end?"
            raise Endless(why if time.monotonic() < self.until else OVERTIME) from None
        finally:
            self.times.cases += time.monotonic() - began
        outcomes = outcomes_of(reply, len(case.steps))
        for number, step in enumerate(case.steps):
            if step["do"] == "observe":  # what the grader saw, not what the jail says
                outcomes[number] = {"value": steps.plain(world.observe()) if world else None}
        if case.extra_memory:
            self._let_go()  # the next case has the usual memory again
        return outcomes, error

    def _ready(self, exercise: Exercise, cell: str, extra_memory: int | None) -> dict[str, Any] | None:
        """A child that has executed the cell. Returns the error that the cell stopped with, if any."""
        if self._deadline(1.0) <= time.monotonic():
            raise Endless
        if self._worker is None:
            began = time.monotonic()
            tree = stripped.tree(exercise.closed)
            self._worker = Worker(tree, self.limits, self.isolated, self.with_torch, began + START_SECONDS)
            self.times.start += time.monotonic() - began
            self.until += time.monotonic() - began  # a slow start is not the learner's
        if self._worker.serves == exercise.name:
            return None
        began = time.monotonic()
        job = {
            "cell": cell,
            "closed": [name for name in exercise.closed if not stripped.ours(name)],
            "limits": asdict(self.limits),
            "extra_memory": extra_memory,
        }
        try:
            return self._worker.begin(exercise.name, job, self._deadline(CELL_SECONDS))
        except Endless:
            raise EndlessCell("the answer cell itself does not come to an end") from None
        finally:
            self.times.cells += time.monotonic() - began

    def _let_go(self) -> None:
        """End the child, by force if it will not go."""
        if self._worker:
            try:
                self._worker.end(self._deadline(5.0))
            except (Endless, Gone, wire.WireError):
                self._stop()

    def _deadline(self, seconds: float) -> float:
        return min(time.monotonic() + seconds, self.until)

    def _stop(self) -> None:
        if self._worker:
            self._worker.stop()
            self._worker = None


@lru_cache(maxsize=1000)
def _message(case: Case) -> bytes:
    """A case as the jail gets it: packed once for all hand-ins of a class in this process."""
    return wire.pack({"steps": [_sent(step) for step in case.steps]})


def _sent(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """A step as the jail gets it: what the grader's side saw is none of its business."""
    return {"do": "observe", "name": ""} if step["do"] == "observe" else step


def _defined(exercise: Exercise, groups: Mapping[str, Sequence[list[Outcome] | str]]) -> bool:
    """Whether the answer defined its name at all: a NameError of the script itself says no."""
    first = next((o for rows in groups.values() for o in rows if not isinstance(o, str)), None)
    if not first or "raised" not in first[0]:
        return True
    error = first[0]["raised"]
    return not (isinstance(error, dict) and error.get("type") == "NameError" and error.get("line") is None)
