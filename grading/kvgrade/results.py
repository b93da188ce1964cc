"""Results: one file for each hand-in that was graded, addressed by all that decides what stands in it.

Two equal hand-ins share a file; a changed hand-in, grader, case or seed has another one. So a run that was killed goes
on where it stood, and nothing old is taken for new.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from kvlab import atomic

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
        try:
            marks = {name: _mark(mark) for name, mark in content["marks"].items()}
        except (KeyError, TypeError, AttributeError):
            raise ValueError("this is no result: its marks are none") from None
        result = cls(**{**content, "marks": marks})
        if not _whole(result):
            raise ValueError("this is no result: a field of it has another type or an impossible value")
        return result


def _mark(content: Any) -> Mark:
    return Mark(**{**content, "groups": [Group(**group) for group in content["groups"]]})


def _whole(result: Result) -> bool:
    """Whether all fields have their types, and points are possible ones: a file may have been damaged or edited."""
    texts = [result.key, result.unit, result.submission, result.grader, result.unreadable]
    right = isinstance(result.isolated, bool) and isinstance(result.facts, list)
    right &= isinstance(result.answers, dict) and isinstance(result.measured, dict)
    if not right:
        return False
    texts += [*result.facts, *result.answers, *result.answers.values()]
    numbers = list(result.measured.values())
    for mark in result.marks.values():
        texts += [mark.note, mark.text]
        right &= _between(mark.possible, math.inf) and _between(mark.points, mark.possible)
        for group in mark.groups:
            texts += [group.name, group.mistake, group.why, group.seen]
            right &= isinstance(group.right, bool) and _between(group.points, math.inf)
    return right and all(isinstance(one, str) for one in texts) and all(_between(one, math.inf) for one in numbers)


def _between(value: object, most: float) -> bool:
    """Whether a value is a finite number from 0 to `most`; a little more is allowed, since points are summed."""
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= most + 1e-9  # type: ignore[arg-type, operator]


def path(folder: Path, key: str) -> Path:
    """Where the result with this key lies."""
    return folder / f"{key}.json"


def load(folder: Path, key: str) -> Result | None:
    """The result with this key; None when it is not there or is no whole result. Raises RuntimeError for a folder."""
    try:
        result = Result.from_json(path(folder, key).read_bytes())
    except IsADirectoryError:
        raise RuntimeError(
            f"{path(folder, key)} is a folder where a result belongs: move it away, then go on."
        ) from None
    except (FileNotFoundError, ValueError):
        return None
    return result if result.key == key else None


def save(folder: Path, result: Result) -> None:
    """Write a result: it is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path(folder, result.key), result.to_json())


def write_atomic(target: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file that is never seen half written, also after a power cut. Raises OSError, see `room`."""
    with room(target):
        atomic.write_atomic(target, data, mode)


NO_ROOM = "free some space, then run it again; what was graded is kept."


@contextlib.contextmanager
def room(target: Path) -> Iterator[None]:
    """For writing a file: a full disk raises an OSError whose text names the file and says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(f"The disk is full, {target} could not be written: {NO_ROOM}") from None


MERGED = "merged.json"
"""Beside the results of a unit: {student: key} of what stands in the gradebook. Written by the merger alone."""


class DamagedError(RuntimeError):
    """A file of results/ does not hold what it should. The text names it and says what to do."""


def merged_keys(folder: Path) -> dict[str, str]:
    """The keys of the results that stand in the gradebook, by student, sorted. Raises DamagedError."""
    place = folder / MERGED
    try:
        keys = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError, IsADirectoryError):
        keys = None
    if not isinstance(keys, dict) or not all(isinstance(key, str) and key.isalnum() for key in keys.values()):
        raise DamagedError(
            f"{place} is damaged: restore your copy of it, or run `python -m kvgrade grade --unit {folder.name}` for the "
            "whole unit, which makes it anew."
        )
    return dict(sorted(keys.items()))


def merged(folder: Path) -> dict[str, Result]:
    """The results that stand in the gradebook, by student, sorted. Raises DamagedError for a damaged list of them."""
    found = {student: load(folder, key) for student, key in merged_keys(folder).items()}
    return {student: result for student, result in found.items() if result is not None}
