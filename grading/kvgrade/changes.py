"""The marks that a merge changes, told before and after it; those of a regrade are kept in `changes.csv`."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from . import gradebook, results
from .export import safe
from .results import Mark, Result

MERGING = "merging.json"  # changes of a merge that is under way: a killed one must not lose them
CHANGES = "changes.csv"
_HEADER = ("student", "exercise", "before", "after", "diagnosis before", "diagnosis after")


@dataclass(frozen=True)
class Change:
    """A mark that another one replaces, with the mistakes that were found before and after (before: "" if unknown)."""

    student: str
    exercise: str
    before: float
    after: float
    diagnosis_before: str
    diagnosis_after: str


def find(
    hand_ins: Mapping[str, gradebook.HandIn],
    before: Mapping[str, Result],
    graded: Mapping[str, Result],
    files: Mapping[str, str],
) -> tuple[list[Change], list[Change]]:
    """Marks in the gradebook that will be replaced: by a regrade of the same file, and by the marks of a new file.

    A first mark replaces none. files: the SHA-256 of the file that was graded, by student.
    """
    regraded: list[Change] = []
    again: list[Change] = []
    for student, result in sorted(graded.items()):
        was = before.get(student)
        changes = again if was and was.submission != files[student] else regraded
        for name, mark in sorted(result.marks.items()):
            grade = hand_ins[student].grades.get(f"check-{name}") if student in hand_ins else None
            if grade is None or grade.auto_score is None or abs(grade.auto_score - mark.points) < 1e-9:
                continue
            old = was.marks.get(name) if was else None
            known = old if old and abs(old.points - grade.auto_score) < 1e-9 else None
            changes.append(Change(student, name, grade.auto_score, mark.points, _diagnosis(known), _diagnosis(mark)))
    return regraded, again


def _diagnosis(mark: Mark | None) -> str:
    """The mistakes of a mark, or the groups that no mistake explains."""
    return "; ".join(dict.fromkeys(g.mistake or g.name for g in mark.groups if not g.right)) if mark else ""


def remember(folder: Path, changes: list[Change], say: Callable[[str], object]) -> list[Change]:
    """Note the changes of this merge, with those of one that was killed before it was done; returns all of them.

    A note that can't be read is set aside: it says nothing but what an ended merge had changed.
    """
    place = folder / MERGING
    try:
        known = [_change(row) for row in json.loads(place.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        known = []
    except (ValueError, TypeError, RecursionError, IsADirectoryError):
        known = []
        damaged = place.with_suffix(".damaged")
        os.replace(place, damaged)
        say(f"{place} was damaged and is now {damaged.name}: what an ended run had changed may miss in {CHANGES}.")
    old = {(change.student, change.exercise): change for change in known}
    for change in changes:
        spot = (change.student, change.exercise)
        first = old.get(spot, change)
        old[spot] = replace(change, before=first.before, diagnosis_before=first.diagnosis_before)
    folder.mkdir(parents=True, exist_ok=True)
    found = [old[spot] for spot in sorted(old)]
    results.write_atomic(place, json.dumps([asdict(change) for change in found]).encode())
    return found


def _change(row: object) -> Change:
    """A change as `remember` wrote it. Raises ValueError or TypeError for anything else."""
    if not isinstance(row, dict):
        raise ValueError("no change")
    change = Change(**row)
    if type(change.before) not in (int, float) or type(change.after) not in (int, float):
        raise ValueError("no points")
    if not all(isinstance(t, str) for t in (*row.keys(), change.student, change.exercise)):
        raise ValueError("no names")
    return replace(change, diagnosis_before=str(change.diagnosis_before), diagnosis_after=str(change.diagnosis_after))


def done(folder: Path, changes: Sequence[Change]) -> None:
    """Write the list of a regrade, if it changed anything, and forget the note."""
    if changes:
        results.write_atomic(folder / CHANGES, _csv(changes).encode())
    (folder / MERGING).unlink(missing_ok=True)
    for name in (MERGING, CHANGES):
        for half in folder.glob(f".{name}.*.part"):  # of a merge that was killed while it wrote
            half.unlink(missing_ok=True)


def _csv(changes: Sequence[Change]) -> str:
    """The changes as CSV; texts are made safe for spreadsheets."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(_HEADER)
    for c in changes:
        points = (f"{c.before:g}", f"{c.after:g}")
        table.writerow([safe(c.student), safe(c.exercise), *points, safe(c.diagnosis_before), safe(c.diagnosis_after)])
    return out.getvalue()


__all__ = ["CHANGES", "MERGING", "Change", "done", "find", "remember"]
