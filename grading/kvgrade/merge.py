"""The merger: results of a unit go into nbgrader's gradebook and into autograded/, where formgrader looks.

It is the only writer of both besides nbgrader itself. Killed at any moment, it leaves every hand-in old or new as a
whole, and the next run finishes. Nothing that a person gave is changed. Of a learner's folder, the notebook and the
time of handing in reach autograded/; other files stay in submitted/, so that none of them comes back with feedback.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import changes, gradebook, graft, results
from .changes import CHANGES, MERGING, Change
from .course import Course, CourseError
from .locks import held
from .results import MERGED, Result

BATCH = 100  # hand-ins in one commit


@dataclass(frozen=True)
class Merged:
    """What a merge did, or would do.

    changes: marks that a regrade of the same file changed; again: those that a new file changed; written: hand-ins
    whose marks were written; standing: those that stood there already, but for a time of handing in or a late penalty
    in `updated`. waiting, confirm: marks of the whole unit that a person has to give, or to look at again.
    """

    changes: list[Change]
    written: list[str]
    standing: list[str]
    again: list[Change] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    waiting: int = field(default=0, compare=False)
    confirm: int = field(default=0, compare=False)


def merge(
    course: Course,
    unit: str,
    graded: Mapping[str, Result],
    only: bool = False,
    dry_run: bool = False,
    say: Callable[[str], object] = print,
) -> Merged:
    """Write the results of some students, by id, of one unit.

    only: the results hold some exercises; the others keep what they have. dry_run: write nothing but what
    `gradebook.set_apart` gave, if it did. Raises CourseError when the unit is not released, or when the gradebook has
    lost what was merged; RuntimeError when another merger runs, the gradebook is locked, or the list of what stands in
    it is damaged and can't be made again.
    """
    released = course.released(unit)
    folder = course.results(unit)
    with held(course.locks / ".merge.lock", "writes the gradebook"), _quiet():
        damaged, before = _before(course, folder)
        gradebook.ensure_unit(course, unit, released)
        with gradebook.opened(course) as book:
            writer = _Writer(course, unit, gradebook.Unit(book, unit), released, say)
            if damaged:
                before = _made_again(writer, graded, damaged, only)
                say(f"{folder / MERGED} was damaged and is made again from the hand-ins that are here.")
            elif before and not set(before) & set(writer.rows.hand_ins):
                raise CourseError(_lost(course, folder, len(before)))
            files = {student: result.submission for student, result in graded.items()}
            if only:
                graded = {s: _combined(before[s], result) if s in before else result for s, result in graded.items()}
            regraded, again = changes.find(writer.rows.hand_ins, before, graded, files)
            todo = {s: r for s, r in sorted(graded.items()) if not writer.stands(s, r, before.get(s))}
            done = Merged(regraded, list(todo), [s for s in sorted(graded) if s not in todo], again)
            if dry_run:
                return writer.counted(done)
            regraded = changes.remember(folder, regraded, say)
            keys = {student: result.key for student, result in before.items()}
            updated = []
            for batch in _batches(list(sorted(graded)), BATCH):
                for student in batch:
                    if writer.write(student, graded[student], before.get(student), student in todo):
                        updated.append(student)
                book.db.commit()
                keys |= {student: graded[student].key for student in batch if student in writer.rows.hand_ins}
                _keep(folder, keys, [graded[s] for s in batch if s in todo] if only else [])
            changes.done(folder, regraded)
            return writer.counted(replace(done, changes=regraded, updated=[s for s in updated if s not in todo]))


def _before(course: Course, folder: Path) -> tuple[results.DamagedError | None, dict[str, Result]]:
    """The results that stand in the gradebook, or why that is not known. Raises CourseError where no gradebook is."""
    try:
        keys = results.merged_keys(folder)
    except results.DamagedError as error:
        if (folder / MERGED).is_dir():
            raise
        return error, {}
    file = gradebook.path(course)
    if keys and file and not file.is_file():
        raise CourseError(_lost(course, folder, len(keys)))
    return None, results.merged(folder)


def _lost(course: Course, folder: Path, many: int) -> str:
    return (
        f"The gradebook {gradebook.where(course)} no longer holds {many} hand-ins that were merged, nor "
        f"what was marked by hand: restore your copy of it, or delete {folder / MERGED} to begin anew."
    )


def _made_again(
    writer: _Writer, graded: Mapping[str, Result], damaged: results.DamagedError, only: bool
) -> dict[str, Result]:
    """What stands in the gradebook, worked out by comparing it with the results of all hand-ins."""
    if only or set(writer.rows.hand_ins) - set(graded):
        raise damaged
    return {student: result for student, result in graded.items() if writer.stands(student, result, result)}


class _Writer:
    """Writes one hand-in: the notebook, and rows that the next commit makes lasting."""

    def __init__(
        self, course: Course, unit: str, rows: gradebook.Unit, released: Path, say: Callable[[str], object]
    ) -> None:
        from nbgrader.converters import Autograde

        self.course, self.unit, self.rows, self.say = course, unit, rows, say
        self._master = gradebook.read(released)
        self._plugin = gradebook.plugin(course.settings)
        self._converter = Autograde(coursedir=course.directory, config=course.settings)

    def stands(self, student: str, result: Result, before: Result | None) -> bool:
        """Whether the result is what gradebook and autograded/ hold."""
        if before is None or before.key != result.key or student not in self.rows.hand_ins:
            return False
        notebook = self._graded(result)
        return self._path(student).is_file() and self.rows.hand_ins[student].has(self._rows(notebook, result))

    def counted(self, done: Merged) -> Merged:
        """With the number of marks that a person has to give, and to look at again."""
        found = [item for hand_in in self.rows.hand_ins.values() for item in hand_in.grades.items()]
        by_hand = [(name, grade.manual_score is not None) for name, grade in found if grade.needs_manual_grade]
        waiting = sum(not given and not name.startswith("check-") for name, given in by_hand)
        return replace(done, waiting=waiting, confirm=sum(given for _, given in by_hand))

    def write(self, student: str, result: Result, before: Result | None, new: bool) -> bool:
        """Write what is new; the time of handing in, and what lateness costs, are always brought up to date.

        Returns whether one of these two changed.
        """
        hand_in = self.rows.hand_ins.get(student)
        if hand_in is None:
            if student not in self.rows.students and not self._converter.create_student:
                self.say(f"{student} is not in the gradebook, and nbgrader_config.py says not to add students")
                return False
            hand_in = self.rows.add(student)
        if new:
            from nbformat.v4 import writes  # without the validation that was done when the release was read

            notebook = self._graded(result)
            same = {n for n in result.marks.keys() | result.answers.keys() if before and _same(n, before, result)}
            hand_in.write(self._rows(notebook, result), {f"{kind}-{n}" for n in same for kind in ("check", "answer")})
            self._path(student).parent.mkdir(parents=True, exist_ok=True)
            _replace(self._path(student), (writes(notebook) + "\n").encode())
        stamped = self._copy_timestamp(student)
        submitted = self.course.folder(self.course.directory.submitted_directory, student, self.unit)
        moved = False
        if timestamp := self.course.directory.get_existing_timestamp(str(submitted)):
            moved = hand_in.submission.timestamp != timestamp
            hand_in.submission.timestamp = timestamp
        penalty = gradebook.late_penalty(hand_in, self.rows.seconds_late(hand_in), self._plugin)
        if hand_in.notebook.late_submission_penalty != penalty:
            hand_in.notebook.late_submission_penalty, moved = penalty, True
        if new or stamped:
            self._converter.set_permissions(self.unit, student)
        return moved

    def _path(self, student: str) -> Path:
        folder = self.course.folder(self.course.directory.autograded_directory, student, self.unit)
        return folder / f"{self.unit}.ipynb"

    def _graded(self, result: Result) -> Any:
        """The released notebook with answers and marks; cells that hold neither are the release's own objects."""
        cells = [cell.copy() if "nbgrader" in cell.metadata else cell for cell in self._master.cells]
        notebook = self._master.copy()
        notebook.update(cells=cells, metadata=self._master.metadata.copy())
        graft.put(notebook, result.answers, result.facts, result.unreadable)
        graft.mark(notebook, {name: (mark.points, mark.text) for name, mark in result.marks.items()})
        return notebook

    def _rows(self, notebook: Any, result: Result) -> gradebook.Rows:
        """The rows of a graded notebook; an exercise that was not graded keeps what it has."""
        left = set(graft.checks(notebook)) - set(result.marks)
        return gradebook.rows(notebook, [f"{kind}-{name}" for name in left for kind in ("check", "answer")])

    def _copy_timestamp(self, student: str) -> bool:
        """Copy timestamp.txt beside the graded notebook, where nbgrader looks for what it graded. Whether it changed."""
        name = "timestamp.txt"
        source = self.course.folder(self.course.directory.submitted_directory, student, self.unit) / name
        target = self._path(student).with_name(name)
        wanted = source.read_bytes() if source.is_file() and not source.is_symlink() else None
        if wanted == (target.read_bytes() if target.is_file() else None):
            return False
        if wanted is None:
            target.unlink()
        else:
            _replace(target, wanted)
        return True


def _replace(path: Path, data: bytes) -> None:
    """Put a file in place whole. Not forced to the disk: it can be made again from the results."""
    partial = path.with_name(f".{path.name}.part")
    with results.room(path):
        partial.write_bytes(data)
        os.replace(partial, path)


def _same(name: str, before: Result, after: Result) -> bool:
    """Whether the answer to an exercise or a question is the one that was graded before."""
    return before.answers.get(name) == after.answers.get(name) and before.unreadable == after.unreadable


def _combined(old: Result, new: Result) -> Result:
    """A result with the exercises of `new` in place of those of `old`, and all else as it was."""
    names = tuple(f"{name}: " for name in new.marks)
    facts = [fact for fact in old.facts if not fact.startswith(names)]
    facts += [fact for fact in new.facts if fact.startswith(names)]
    answers = {name: text for name, text in old.answers.items() if name not in new.marks}
    answers |= {name: text for name, text in new.answers.items() if name in new.marks}
    if {**old.marks, **new.marks} == old.marks and answers == old.answers and facts == old.facts:
        return old
    return replace(
        old,
        key=hashlib.sha256(f"{old.key} {new.key}".encode()).hexdigest(),
        grader=new.grader,
        isolated=old.isolated and new.isolated,
        answers=dict(sorted(answers.items())),
        facts=facts,
        marks={**old.marks, **new.marks},
    )


def _keep(folder: Path, keys: Mapping[str, str], made: list[Result]) -> None:
    """Note which results stand in the gradebook, after saving those that were put together here."""
    for result in made:
        results.save(folder, result)
    data = (json.dumps(dict(sorted(keys.items())), indent=1) + "\n").encode()
    path = folder / MERGED
    if not path.is_file() or path.read_bytes() != data:
        results.write_atomic(path, data)


def _batches(students: list[str], size: int) -> Iterator[list[str]]:
    return (students[start : start + size] for start in range(0, len(students), size))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """nbgrader notes each lateness and each changed permission in the log of traitlets: here it is not wanted."""
    log = logging.getLogger("traitlets")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


__all__ = ["CHANGES", "MERGING", "Change", "Merged", "merge"]
