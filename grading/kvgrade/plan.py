"""What is to be graded: the hand-ins of a unit, each a job whose key says whether its result is there already."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import folders, graft, handin, seeds
from .course import Course, CourseError
from .job import Job, Options
from .texts import clean
from .version import grader_version


@dataclass(frozen=True)
class Plan:
    """The hand-ins of one unit.

    `files`: the notebook of each student, sorted; `left_out`: names that are none; `without`: students in whose folder
    there is no notebook, or nobody knows which counts.
    """

    unit: str
    released: bytes
    seed: int
    grader: str
    exercises: tuple[str, ...]
    options: Options
    files: dict[str, Path]
    left_out: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def job(self, student: str) -> Job:
        """The job of a student, read from the file as it is now."""
        try:
            data, refused = handin.read(self.files[student]), ""
        except handin.Unreadable as error:
            data, refused = b"", str(error)
        return Job(self.unit, data, refused, self.released, self.seed, self.grader, self.exercises, self.options)


def make(
    course: Course,
    unit: str,
    options: Options,
    students: Sequence[str] = (),
    exercises: Sequence[str] = (),
    shard: tuple[int, int] | None = None,
    say: Callable[[str], object] = print,
) -> Plan:
    """The plan of a unit. `students`, `exercises`: only these, all when empty; `shard`: (i, n) from `read_shard`.

    Folders are made safe and plain first, as nbgrader's exporter does here; in a dry run they stay as they are.
    Raises CourseError when the unit is not released, or when its notebook is damaged.
    """
    released = course.released(unit).read_bytes()
    known = graft.checks(json.loads(released))
    files, without = {}, []
    for student, folder in course.submitted(unit).items():
        if (students and student not in students) or (shard and not in_shard(student, *shard)):
            continue
        path = folder / f"{unit}.ipynb"
        if course.aside:
            path = _as_if_adopted(path)
        else:
            try:
                folders.set_aside(folder, say)
                folders.adopt(folder, say)
            except OSError as error:
                say(clean(f"{folder} can't be prepared: {error}"))
        if os.path.lexists(path) or any(folder.glob(f"{path.name}*{folders.SET_ASIDE}")):
            files[student] = path  # also what is no file: `job` says why it is not read
        else:
            without.append(student)
            say(f"{clean(student)} of {unit} is not graded: {_why(folder, unit)}")
    chosen = tuple(sorted(set(exercises) & set(known)))
    left_out = tuple(clean(name) for name in course.unnamed(unit)) if not students else ()
    for name in left_out:
        say(f"The folder {name} is left out: its name has control characters or is not UTF-8. Rename it, then go on.")
    seed = seeds.seed(course.aside or course.root, unit)
    return Plan(unit, released, seed, grader_version(unit), chosen, options, files, left_out, tuple(without))


def _as_if_adopted(wanted: Path) -> Path:
    """The notebook that `folders.adopt` would take, where it lies: for a dry run."""
    others = folders.other_notebooks(wanted)
    return others[0] if len(others) == 1 and not os.path.lexists(wanted) else wanted


def units(course: Course, words: Sequence[str], students: Sequence[str], exercises: Sequence[str]) -> list[str]:
    """The units to grade: those named, else all that are released and have hand-ins; only with these exercises.

    Raises CourseError for a student or an exercise that no such unit has, or when nothing is left.
    """
    names = [course.unit(word) for word in words] or [
        path.stem for path in sorted(_released(course)) if course.submitted(path.stem) or course.unnamed(path.stem)
    ]
    unknown = [s for s in students if not any(s in course.submitted(unit) for unit in names)]
    if unknown:
        raise CourseError(
            f"There is no hand-in of {clean(', '.join(unknown))}: look into {course.root / course.named('submitted')}."
        )
    if exercises:
        held = {unit: graft.checks(json.loads(course.released(unit).read_bytes())) for unit in names}
        unknown = [e for e in exercises if not any(e in held[unit] for unit in names)]
        if unknown:
            there = ", ".join(name for unit in names for name in held[unit])
            raise CourseError(f"There is no exercise {', '.join(unknown)} among these: {there}.")
        names = [unit for unit in names if set(exercises) & set(held[unit])]
    names = [unit for unit in names if course.submitted(unit) or course.unnamed(unit)]
    if not names:
        raise CourseError(
            f"There is nothing to grade: {course.root / course.named('submitted')} has no hand-ins of a released unit."
        )
    return list(dict.fromkeys(names))


def _released(course: Course) -> list[Path]:
    from .units import find_units

    found = (course.folder(course.named("release"), ".", path.stem) / f"{path.stem}.ipynb" for path in find_units())
    return [path for path in found if path.is_file()]


def read_shard(text: str) -> tuple[int, int]:
    """(i, n) from `i/n`, 1 ≤ i ≤ n. Raises ValueError."""
    part, _, whole = text.partition("/")
    if part.isdecimal() and whole.isdecimal() and 1 <= int(part) <= int(whole):
        return int(part), int(whole)
    raise ValueError(f"{text!r} is no part of a class: write i/n, such as 2/4 for the second of four parts")


def in_shard(student: str, i: int, n: int) -> bool:
    """Whether a student belongs to part i of n."""
    return int.from_bytes(hashlib.sha256(student.encode()).digest()[:8], "big") % n == i - 1


def _why(folder: Path, unit: str) -> str:
    others = folders.other_notebooks(folder / f"{unit}.ipynb")
    if len(others) > 1:
        return f"there are {len(others)} notebooks and none is called {unit}.ipynb; keep the one that counts"
    return f"there is no notebook in {clean(str(folder))}"
