"""Results: one file for each hand-in that was graded, addressed by all that decides what stands in it.

Two equal hand-ins share a file; a changed hand-in, grader, case or seed has another one. So a run that was killed goes
on where it stood, and nothing old is taken for new.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class Group:
    """One kind of case. `mistake` names the diagnosis ("" when none fits), `why` its sentence, `seen` what came."""

    name: str
    points: float
    right: bool
    mistake: str = ""
    why: str = ""
    seen: str = ""


@dataclass(frozen=True)
class Mark:
    """One exercise: points, the most there are, a note for its owner, its groups, and all that as feedback text."""

    points: float
    possible: float
    note: str
    groups: list[Group]
    text: str


@dataclass(frozen=True)
class Result:
    """What came of one hand-in. Nothing in it is secret from its owner but `key`'s seed, which a key does not show."""

    key: str
    unit: str
    submission: str  # SHA-256 of the file
    grader: str  # version of grader and cases
    isolated: bool
    unreadable: str  # why the file could not be read, or ""
    answers: dict[str, str]  # by exercise or question: what was graded, written answers too
    facts: list[str]  # what was seen in the hand-in and while it ran; facts change no mark
    marks: dict[str, Mark]  # by exercise
    measured: dict[str, float] = field(default_factory=dict)  # seconds: the one part that differs from run to run

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks.values())

    def to_json(self) -> bytes:
        """The content of the result's file."""
        return (json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes | str) -> Result:
        """The result in a file. Raises ValueError for anything that is not one."""
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            raise ValueError("this is no result: it is not JSON") from None
        names = {item.name for item in fields(cls)}
        if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA or set(content) != names:
            raise ValueError("this is no result of this version of the grader")
        return cls(**{**content, "marks": {name: _mark(mark) for name, mark in content["marks"].items()}})


def _mark(content: Mapping[str, Any]) -> Mark:
    return Mark(**{**content, "groups": [Group(**group) for group in content["groups"]]})


def path(folder: Path, key: str) -> Path:
    """Where the result with this key lies."""
    return folder / f"{key}.json"


def load(folder: Path, key: str) -> Result | None:
    """The result with this key; None when it is not there or is no whole result."""
    try:
        result = Result.from_json(path(folder, key).read_bytes())
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return result if result.key == key else None


def save(folder: Path, result: Result) -> None:
    """Write a result: it is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path(folder, result.key), result.to_json())


def write_atomic(target: Path, data: bytes) -> None:
    """Write a file that is never seen half written, also after a power cut."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


MERGED = "merged.json"
"""Beside the results of a unit: {student: key} of what stands in the gradebook. Written by the merger alone."""


def merged(folder: Path) -> dict[str, Result]:
    """The results that stand in the gradebook, by student, sorted."""
    try:
        keys = json.loads((folder / MERGED).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    found = {student: load(folder, key) for student, key in sorted(keys.items())}
    return {student: result for student, result in found.items() if result is not None}
