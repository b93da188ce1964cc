"""The ids that rosters gave to a class, so that an import without a roster makes no second id for the same student."""

from __future__ import annotations

import json
from pathlib import Path

from ..results import write_atomic
from .roster import Roster

FILE = "roster-ids.json"


def known_ids(folder: Path) -> dict[str, str]:
    """{folder's name: id in the roster} of the class, from `imports/`; empty where no roster was used.

    Raises ValueError for a file that can't be read.
    """
    path = folder / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"{path} is damaged: delete it, and import with --roster.")
    return found


def remember(folder: Path, roster: Roster) -> None:
    """Add the ids of a roster; a file that would not change is not touched."""
    before = known_ids(folder)
    after = before | {student.id: student.given for student in roster.students if student.id and not student.refused}
    if after != before:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(after, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        write_atomic(folder / FILE, text.encode("utf-8", "replace"))
