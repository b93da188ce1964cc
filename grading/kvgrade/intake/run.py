"""Import: from a zip or folder to `submitted/<student>/<unit>/<unit>.ipynb`, and a row about every file."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from kvlab.handin import answers as notebooks
from kvlab.handin.report import which_unit

from .. import handin
from ..course import Course
from . import archive, place
from .choose import Version, choose, of_one_download
from .due import due_date
from .outcome import LEFT, LOOK, TAKEN, UNCHANGED, Row
from .roster import Roster, Student
from .schemes import Reader, Sender
from .spool import Spool
from .stored import stored
from .students import Names

_NO_EXERCISE = "it holds no exercise of the course"
_NEXT = "look at it with `python -m kvgrade check FILE`, and ask its owner for the file again"
_HARMLESS = frozenset({archive.NO_NOTEBOOK, _NO_EXERCISE})  # beside a hand-in that was taken


@dataclass(frozen=True)
class Order:
    """What is asked. `unit` is None for every file to its own; `timestamps` is auto, files or none.

    zone: of times that come without one, in Blackboard's names; None for this machine's. known: the only ids that may be
    used without a roster; None for any.
    """

    source: Path
    unit: str | None
    roster: Roster | None = None
    timestamps: str = "auto"
    dry_run: bool = False
    zone: tzinfo | None = None
    known: frozenset[str] | None = None


@dataclass(frozen=True)
class _File:
    """A file and what is known about it before its owner is. `version` is None where `problem` says why."""

    path: str
    sender: Sender
    unit: str = ""
    version: Version | None = None
    problem: str = ""


def run(course: Course, order: Order, released: Mapping[str, dict[str, Any]]) -> list[Row]:
    """Take the hand-ins. Raises what `archive.entries` raises; a file that can't be taken costs nobody else anything."""
    with Spool() as spool:
        return _run(course, order, _files(order, released, spool))


def _run(course: Course, order: Order, files: list[_File]) -> list[Row]:
    senders = [file.sender for file in files]
    names = Names(order.roster, senders, [file.sender for file in files if file.version], order.known)
    owners: dict[str, tuple[str, str, Student | None]] = {file.path: names.of(file.sender) for file in files}
    rows: list[Row] = []
    groups: dict[tuple[str, str], list[_File]] = defaultdict(list)
    for file in files:
        student, reason, _ = owners[file.path]
        if not student:
            why = file.problem or reason
            rows.append(Row("", file.unit, file.path, LOOK, why if why == reason else f"{why}; {reason}"))
        elif file.version and (order.unit is None or file.unit == order.unit):
            groups[student, file.unit].append(file)
    due = {unit: due_date(course, unit) for unit in {unit for _, unit in groups}}
    for (student, unit), own in sorted(groups.items()):
        known = owners[own[0].path][2]
        task = _Task(student, unit, known, names.told(own[0].sender, known), due[unit])
        rows += _take(course, order, task, [file.version for file in own if file.version])
    arrived = {row.student for row in rows if row.state in (TAKEN, UNCHANGED)}
    grouped = {file.path for own in groups.values() for file in own}
    for file in files:
        student = owners[file.path][0]
        if student and file.path not in grouped:
            harmless = student in arrived and (file.version is not None or file.problem in _HARMLESS)
            words = file.problem or f"this is unit {file.unit}"
            rows.append(Row(student, file.unit, file.path, LEFT if harmless else LOOK, words))
    return sorted(rows)


def _files(order: Order, released: Mapping[str, dict[str, Any]], spool: Spool) -> list[_File]:
    """Every file of the source, read and recognised."""
    found = [_recognise(entry, order.unit, released, spool) for entry in archive.entries(order.source)]
    reader = Reader([path for path, *_ in found], released, order.zone)
    files = [
        _File(path, sender := reader.read(path), unit, version and replace(version, sender=sender), problem)
        for path, unit, version, problem in found
    ]
    return _with_times(files, order.timestamps)


def _recognise(
    entry: archive.Entry, asked: str | None, released: Mapping[str, dict[str, Any]], spool: Spool
) -> tuple[str, str, Version | None, str]:
    """(path, unit, the version or None, the problem)."""
    if entry.data is None:
        return entry.path, "", None, entry.problem
    nobody = Sender("")
    try:
        cells, notebook = notebooks.parse(entry.data)
    except handin.Unreadable as error:
        unit = _unit_in_bytes(entry.data, released) or asked
        if unit is None:
            return entry.path, "", None, f"it is damaged, and of no known unit: name it with --unit. {error}"
        kept = spool.keep(entry.data)
        return entry.path, unit, Version(entry.path, nobody, kept, "", str(error), entry.time, entry.packed), ""
    unit = which_unit(cells, notebook, released)
    if not unit:
        return entry.path, "", None, _NO_EXERCISE
    answers = handin.collect(entry.data, released[unit]).answers
    digest = hashlib.sha256(repr(sorted(answers.items())).encode()).hexdigest() if answers else ""
    kept = spool.keep(stored(entry.data))
    return entry.path, unit, Version(entry.path, nobody, kept, digest, "", entry.time, entry.packed), ""


def _unit_in_bytes(data: bytes, released: Mapping[str, dict[str, Any]]) -> str:
    """The unit of a damaged file: the one most of whose exercises are named in its bytes, or ""."""
    seen = {
        name.decode() for name in re.findall(rb"answer-([A-Za-z]\w*)|# exercise: ([A-Za-z]\w*)", data) for name in name
    }
    counts = {unit: sum(p.name in seen for p in handin.places(book)) for unit, book in released.items()}
    best = max(counts.values(), default=0)
    return next((unit for unit in sorted(counts) if best and counts[unit] == best), "")


def _with_times(files: list[_File], timestamps: str) -> list[_File]:
    """The files with the times of the hand-ins, where those are known: by the platform, else by the file's own.

    The times in Canvas' and Moodle's zips are those of the download. `timestamps="files"` trusts every file.
    """
    plain = [file.version for file in files if file.version and file.sender.scheme in ("folder", "file")]
    latest = {version.sender.names[:1]: version.file_time for version in plain if version.file_time}
    one_download = of_one_download(list(latest.values()))
    for file in files:
        version = file.version
        if version is None:
            continue
        trusted = timestamps == "files" or (file.sender.scheme in ("folder", "file") and not one_download)
        version.time = file.sender.time or (version.file_time if trusted else None)
        version.stamp = version.time if file.sender.time or version.packed or timestamps == "files" else None
    return files


@dataclass(frozen=True)
class _Task:
    """A student's files for a unit: whose, by which row of the roster, what to tell about the id, when it is due."""

    student: str
    unit: str
    known: Student | None
    told: str
    due: datetime | None


def _take(course: Course, order: Order, task: _Task, versions: list[Version]) -> list[Row]:
    """Choose among the versions, and put the one that counts in its place."""
    choice = choose(versions)
    counts = choice.version
    state, words = (LEFT, "another file of the same student counts") if counts else (LOOK, choice.words[0])
    rows = [Row(task.student, task.unit, v.path, state, words) for v in versions if v is not counts]
    if counts is None:
        return rows
    time, restamp = _time(order, task, counts)
    try:
        folder = course.folder(course.directory.submitted_directory, task.student, task.unit)
        readable = _is_readable(folder)
        if counts.damaged and readable:
            words = f"it is damaged ({counts.damaged.rstrip('.')}), so the readable hand-in that stands there stays: {_NEXT}"
            return [*rows, Row(task.student, task.unit, counts.path, LOOK, words)]
        placed = place.put(folder, counts.data.read(), time, order.dry_run, restamp, not (readable or counts.damaged))
    except (OSError, ValueError) as error:
        return [*rows, Row(task.student, task.unit, counts.path, LOOK, str(error))]
    if placed.state == "older":
        return [*rows, Row(task.student, task.unit, counts.path, LEFT, "the hand-in that stands there is newer")]
    state = TAKEN if placed.state == "taken" else UNCHANGED
    late = _late(task, counts, placed.time)
    told = [*([task.told] if task.told else []), *choice.words, *_state_words(counts), *late]
    if placed.restamped:
        told.append("timestamp.txt is written")
    if placed.kept:
        told.append(f"what stood there is kept as {', '.join(placed.kept)}")
    if choice.look or counts.damaged:
        state, told = LOOK, [state, *told]
    stamp = placed.time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if placed.time else ""
    return [*rows, Row(task.student, task.unit, counts.path, state, "; ".join(told), stamp)]


def _is_readable(folder: Path) -> bool:
    """Whether a notebook that can be read stands in `submitted/<student>/<unit>`."""
    path = place.standing(folder)
    if path is None:
        return False
    try:
        notebooks.parse(handin.read(path))
    except handin.Unreadable:
        return False
    return True


def _state_words(version: Version) -> list[str]:
    if version.damaged:
        return [f"it is damaged and kept as it is: {version.damaged.rstrip('.')}; {_NEXT}"]
    return [] if version.answers else ["it is untouched"]


def _time(order: Order, task: _Task, version: Version) -> tuple[datetime | None, bool]:
    """When the hand-in came: by the roster's column, which is about one unit, else by the file.

    With it, whether that goes before a time that is written already: what a person asked for does.
    """
    if order.timestamps == "none":
        return None, False
    by_roster = task.known.handed_in if task.known and order.unit else None
    return by_roster or version.stamp, by_roster is not None or order.timestamps == "files"


def _late(task: _Task, version: Version, time: datetime | None) -> list[str]:
    if time and task.due:
        hours = (time - task.due).total_seconds() / 3600
        return [f"{hours:.1f} h late"] if hours > 0 else []
    if version.sender.late:
        return ["late, says the platform; its hours are not known: write timestamp.txt yourself if they count"]
    return []
