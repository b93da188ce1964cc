"""What the catalogue says of a hand-in against what a run made of it: marks, flags, and what lies elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from helpers import ROOT
from hostile.course import Course, checksums
from hostile.model import POINTS, Expect, Trick
from hostile.writing import MARK

_WORDS = {
    "changed": ["was changed"],
    "copied": ["answer cells were found"],
    "missing": ["is missing", "no answer cell was found", "as it was handed out"],
    "killed": ["process", "no answer within"],
    "time": ["no answer within", "not come to an end", "was used up"],
    "unreadable": ["can't be read"],
}
"""Of which one is said where a flag is due. Flags that are not here are seen by one of the graders only."""


def not_due(expect: Expect, marks: Mapping[str, float], wrong: Mapping[str, float]) -> list[str]:
    """What is wrong with the marks of a hand-in, one line each. `wrong`: what the plain wrong answers earn."""
    found = []
    for exercise, possible in POINTS.items():
        due, have = expect.of(exercise), marks[exercise]
        if isinstance(due, str):
            least, most = {
                "full": (possible, possible),
                "zero": (0.0, 0.0),
                "as wrong": (wrong[exercise], wrong[exercise]),
                "at most wrong": (0.0, wrong[exercise]),
                "any": (0.0, possible),
            }[due]
        else:
            least, most = due[0] * possible, due[1] * possible
        if not least <= have <= most:
            found.append(f"{exercise} is due {due}, {least} to {most} points, and has {have}")
    if sum(marks.values()) > expect.most * sum(POINTS.values()):
        found.append(f"more than {expect.most} of all points")
    return found


def words(trick: Trick) -> list[str]:
    """Of which one has to be told about a hand-in; empty where nothing is asked."""
    flags = trick.expect.flags
    return [word for flag in flags for word in _WORDS[flag]] if all(flag in _WORDS for flag in flags) else []


@contextmanager
def elsewhere(course: Course) -> Iterator[list[str]]:
    """What a run changes where it may not: in the repository and in what the class was given. Filled at the end."""
    kept = [ROOT / name for name in ("grading", "src", "notebooks", "data")]
    kept += [course.folder / name for name in ("source", "release", "home", "nbgrader_config.py")]
    before, changed = checksums(*kept), list[str]()
    yield changed
    after = checksums(*kept)
    changed += sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def left_outside() -> list[Path]:
    """Files that hand-ins try to leave on the machine."""
    return [path for folder in (Path("/tmp"), Path.home()) for path in folder.glob(f"{MARK}*")]
