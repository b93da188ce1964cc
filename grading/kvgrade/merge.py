"""The merger: results of a unit go into nbgrader's gradebook and into autograded/, where formgrader looks.

It is the only writer of both besides nbgrader itself. Killed at any moment, it leaves every hand-in old or new as a
whole, and the next run finishes. Nothing that a person gave is changed. Of a learner's folder, the notebook and the
time of handing in reach autograded/; other files stay in submitted/, so that none of them comes back with feedback.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from . import gradebook, graft, results
from .course import Course
from .locks import held
from .results import MERGED, Mark, Result

BATCH = 100  # hand-ins in one commit
MERGING = "merging.json"  # changes of a merge that is under way: a killed one must not lose them
CHANGES = "changes.csv"


@dataclass(frozen=True)
class Change:
    """A mark that a regrade changes, with the mistakes that were found before and after (before: "" if unknown)."""

    student: str
    exercise: str
    before: float
    after: float
    diagnosis_before: str
    diagnosis_after: str


@dataclass(frozen=True)
class Merged:
    """What a merge did, or would do: marks that change, hand-ins written, hand-ins that stood there already."""

    changes: list[Change]
    written: list[str]
    standing: list[str]


def merge(
    course: Course,
    unit: str,
    graded: Mapping[str, Result],
    only: bool = False,
    dry_run: bool = False,
    say: Callable[[str], object] = print,
) -> Merged:
    """Write the results of some students, by id, of one unit.

    only: the results hold some exercises; the others keep what they have. dry_run: write nothing.
    Raises CourseError when the unit is not released, RuntimeError when another merger runs or the gradebook is locked.
    """
    released = course.released(unit)
    folder = course.results(unit)
    with held(course.root / "results" / ".merge.lock", "writes the gradebook"), _quiet():
        gradebook.ensure_unit(course, unit, released)
        before = results.merged(folder)
        if only:
            graded = {s: _combined(before[s], result) if s in before else result for s, result in graded.items()}
        with gradebook.opened(course) as book:
            writer = _Writer(course, unit, gradebook.Unit(book, unit), released, say)
            changes = _changes(writer.rows.hand_ins, before, graded)
            todo = {s: r for s, r in sorted(graded.items()) if not writer.stands(s, r, before.get(s))}
            done = Merged(changes, list(todo), [s for s in sorted(graded) if s not in todo])
            if dry_run:
                return done
            changes = _remember(folder, changes)
            keys = {student: result.key for student, result in before.items()}
            for batch in _batches(list(sorted(graded)), BATCH):
                for student in batch:
                    writer.write(student, graded[student], student in todo)
                book.db.commit()
                keys |= {student: graded[student].key for student in batch if student in writer.rows.hand_ins}
                _keep(folder, keys, [graded[s] for s in batch if s in todo] if only else [])
            if changes:
                results.write_atomic(folder / CHANGES, _csv(changes).encode())
            (folder / MERGING).unlink(missing_ok=True)
            return replace(done, changes=changes)


class _Writer:
    """Writes one hand-in: the notebook, and rows that the next commit makes lasting."""

    def __init__(
        self, course: Course, unit: str, rows: gradebook.Unit, released: Path, say: Callable[[str], object]
    ) -> None:
        import nbformat
        from nbgrader.converters import Autograde

        self.course, self.unit, self.rows, self.say = course, unit, rows, say
        self._master = nbformat.read(released, as_version=4)
        self._plugin = gradebook.plugin(course.settings)
        self._converter = Autograde(coursedir=course.directory, config=course.settings)

    def stands(self, student: str, result: Result, before: Result | None) -> bool:
        """Whether the result is what gradebook and autograded/ hold."""
        if before is None or before.key != result.key or student not in self.rows.hand_ins:
            return False
        notebook = self._graded(result)
        return self._path(student).is_file() and self.rows.hand_ins[student].has(self._rows(notebook, result))

    def write(self, student: str, result: Result, new: bool) -> None:
        """Write what is new; the time of handing in, and what lateness costs, are always brought up to date."""
        hand_in = self.rows.hand_ins.get(student)
        if hand_in is None:
            if student not in self.rows.students and not self._converter.create_student:
                self.say(f"{student} is not in the gradebook, and nbgrader_config.py says not to add students")
                return
            hand_in = self.rows.add(student)
        if new:
            from nbformat.v4 import writes  # without the validation that was done when the release was read

            notebook = self._graded(result)
            hand_in.write(self._rows(notebook, result))
            self._path(student).parent.mkdir(parents=True, exist_ok=True)
            _replace(self._path(student), (writes(notebook) + "\n").encode())
        stamped = self._copy_timestamp(student)
        submitted = self.course.folder(self.course.directory.submitted_directory, student, self.unit)
        if timestamp := self.course.directory.get_existing_timestamp(str(submitted)):
            hand_in.submission.timestamp = timestamp
        penalty = gradebook.late_penalty(hand_in, self.rows.seconds_late(hand_in), self._plugin)
        if hand_in.notebook.late_submission_penalty != penalty:
            hand_in.notebook.late_submission_penalty = penalty
        if new or stamped:
            self._converter.set_permissions(self.unit, student)

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
    partial.write_bytes(data)
    os.replace(partial, path)


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


def _changes(
    hand_ins: Mapping[str, gradebook.HandIn], before: Mapping[str, Result], graded: Mapping[str, Result]
) -> list[Change]:
    """Marks in the gradebook that other ones will replace; a first mark replaces none."""
    found = []
    for student, result in sorted(graded.items()):
        for name, mark in sorted(result.marks.items()):
            grade = hand_ins[student].grades.get(f"check-{name}") if student in hand_ins else None
            if grade is None or grade.auto_score is None or abs(grade.auto_score - mark.points) < 1e-9:
                continue
            old = before[student].marks.get(name) if student in before else None
            known = old if old and abs(old.points - grade.auto_score) < 1e-9 else None
            found.append(Change(student, name, grade.auto_score, mark.points, _diagnosis(known), _diagnosis(mark)))
    return found


def _diagnosis(mark: Mark | None) -> str:
    """The mistakes of a mark, or the groups that no mistake explains."""
    return "; ".join(dict.fromkeys(g.mistake or g.name for g in mark.groups if not g.right)) if mark else ""


def _remember(folder: Path, changes: list[Change]) -> list[Change]:
    """Note the changes of this merge, with those of one that was killed before it was done; returns all of them."""
    with contextlib.suppress(FileNotFoundError):
        known = [Change(**row) for row in json.loads((folder / MERGING).read_text(encoding="utf-8"))]
        old = {(change.student, change.exercise): change for change in known}
        new = {(change.student, change.exercise): change for change in changes}
        for place, change in new.items():
            first = old.get(place, change)
            old[place] = replace(change, before=first.before, diagnosis_before=first.diagnosis_before)
        changes = [old[place] for place in sorted(old)]
    folder.mkdir(parents=True, exist_ok=True)
    results.write_atomic(folder / MERGING, json.dumps([asdict(change) for change in changes]).encode())
    return changes


def _keep(folder: Path, keys: Mapping[str, str], made: list[Result]) -> None:
    """Note which results stand in the gradebook, after saving those that were put together here."""
    for result in made:
        results.save(folder, result)
    text = json.dumps(dict(sorted(keys.items())), indent=1) + "\n"
    path = folder / MERGED
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        results.write_atomic(path, text.encode())


def _csv(changes: list[Change]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["student", "exercise", "before", "after", "diagnosis before", "diagnosis after"])
    for c in changes:
        table.writerow([c.student, c.exercise, f"{c.before:g}", f"{c.after:g}", c.diagnosis_before, c.diagnosis_after])
    return out.getvalue()


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


__all__ = ["Change", "Merged", "merge"]
