"""One hand-in to be graded, with all that decides its result; and grading it: bytes in, a result out.

`run` is pure but for `Result.measured`: the same job gives the same result here, in another process, on another machine.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from . import feedback, grade, graft, handin
from .results import Mark, Result
from .verdict import ExerciseVerdict
from .version import grader_version


class Refused(RuntimeError):
    """This process can't take the job: it would not give the result that is asked for. The text says why."""


class GraderFault(RuntimeError):
    """The grader failed at a hand-in: nothing is known about the answers. The text says how."""


@dataclass(frozen=True)
class Options:
    """How answers are run. seconds: wall clock for one exercise; case_seconds: for one case, None as each says."""

    isolated: bool = True
    seconds: float = 75.0
    case_seconds: float | None = None


@dataclass(frozen=True)
class Job:
    """A hand-in of a unit. `refused`: why its file was not read, or ""; `exercises`: which to grade, () for all."""

    unit: str
    hand_in: bytes
    refused: str
    released: bytes
    seed: int
    grader: str
    exercises: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)

    @cached_property
    def key(self) -> str:
        """The address of the result: SHA-256 over all that decides it."""
        parts = [
            self.unit,
            _sha(self.hand_in),
            self.refused,
            _sha(self.released),
            self.seed,
            self.grader,
            sorted(self.exercises),
            asdict(self.options),
        ]
        return _sha(json.dumps(parts, sort_keys=True).encode())

    def to_json(self) -> bytes:
        """The job as a message."""
        content = asdict(self)
        for name in ("hand_in", "released"):
            content[name] = base64.b64encode(content[name]).decode("ascii")
        return json.dumps(content, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Job:
        """The job in a message. Raises ValueError for anything that is not one."""
        try:
            content: dict[str, Any] = json.loads(data)
            for name in ("hand_in", "released"):
                content[name] = base64.b64decode(content[name], validate=True)
            content["exercises"] = tuple(content["exercises"])
            content["options"] = Options(**content["options"])
            return cls(**content)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError("this is no job of this version of the grader") from None


def run(job: Job) -> Result:
    """Grade a hand-in. Raises Refused where this is another grader than the job's, GraderFault where the grader fails.

    Raises RuntimeError when answers can't be isolated on this host and the job asks for it.
    """
    mine = grader_version(job.unit)
    if job.grader != mine:
        raise Refused(f"another version of the grader: {mine[:12]} here, {job.grader[:12]} asked for")
    began = time.perf_counter()
    released = json.loads(job.released)
    found = handin.HandIn(unreadable=job.refused) if job.refused else handin.collect(job.hand_in, released)
    answers = graft.answers(found.answers, released)
    options = job.options
    report = grade.grade(
        job.unit,
        answers,
        job.seed,
        isolated=options.isolated,
        seconds=options.seconds,
        case_seconds=options.case_seconds,
        only=job.exercises,
    )
    if report.fault:
        raise GraderFault(report.fault)
    facts = [fact for fact in found.facts if _about(fact, graft.checks(released)) in (None, *report.verdicts)]
    return Result(
        key=job.key,
        unit=job.unit,
        submission=_sha(job.hand_in),
        grader=job.grader,
        isolated=report.isolated,
        unreadable=found.unreadable,
        answers=dict(sorted(answers.items())),
        facts=list(dict.fromkeys([*facts, *report.facts])),
        marks={
            name: _mark(verdict, feedback.text(report, name, facts, found.unreadable))
            for name, verdict in report.verdicts.items()
        },
        measured={"seconds": time.perf_counter() - began, **asdict(report.times)},
    )


def _about(fact: str, exercises: list[str]) -> str | None:
    """The exercise that a fact is about; None for the hand-in as a whole."""
    name = fact.partition(": ")[0]
    return name if name in exercises else None


def _mark(verdict: ExerciseVerdict, text: str) -> Mark:
    groups = list(verdict.groups)
    return Mark(verdict.points, verdict.possible, verdict.note, groups, text)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
