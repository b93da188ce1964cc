"""What a class remembers of its imports, in `imports/`.

The ids that rosters gave, so that an import without a roster makes no second id for the same student; and the path of
each hand-in in the download, by which its platform takes feedback back.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..results import write_atomic
from .outcome import Row, stands
from .roster import Roster

FILE = "roster-ids.json"


def known_ids(folder: Path) -> dict[str, str]:
    """{folder's name: id in the roster} of the class, from `imports/`; empty where no roster was used.

    Raises ValueError for a file that can't be read.
    """
    return _read(folder / FILE, "delete it, and import with --roster")


def remember(folder: Path, roster: Roster) -> None:
    """Add the ids of a roster; a file that would not change is not touched."""
    new = {student.id: student.given for student in roster.students if student.id and not student.refused}
    _add(folder / FILE, known_ids(folder), new)


def sources(folder: Path, unit: str) -> dict[str, str]:
    """{student: path in the download that was imported} of a unit's hand-ins. Raises ValueError as `known_ids`."""
    return _read(_sources_file(folder, unit), "delete it, and import the download again")


def remember_sources(folder: Path, rows: Sequence[Row]) -> None:
    """Note where the hand-ins that stand in submitted/ came from; those of other students stay as they were noted."""
    units: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        if stands(row):
            units[row.unit][row.student] = row.file
    for unit, new in units.items():
        _add(_sources_file(folder, unit), sources(folder, unit), new)


def _sources_file(folder: Path, unit: str) -> Path:
    return folder / f"files-{unit}.json"


def _read(path: Path, advice: str) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"{path} is damaged: {advice}.")
    return found


def _add(path: Path, before: Mapping[str, str], new: Mapping[str, str]) -> None:
    after = {**before, **new}
    if after != before:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(after, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        write_atomic(path, text.encode("utf-8", "replace"))
