"""One stored seed per unit and class: equal answers get equal marks, and a resumed run gives what a whole one would.

The seeds lie in `seeds.json` in the folder of the course (where the gradebook is); each is drawn when a unit is first
graded. Whoever may see the file could work out the held-out inputs, so it stays with the gradebook.
"""

from __future__ import annotations

import fcntl
import json
import secrets
from pathlib import Path

from kvlab.atomic import write_atomic

NAME = "seeds.json"


def seed(course: Path, unit: str) -> int:
    """The seed of a unit in the class whose course folder this is. Drawn and stored on the first call.

    Raises ValueError when the file is damaged: a new seed would change marks that were given.
    """
    path = course / NAME
    with (course / f".{NAME}.lock").open("w") as lock:  # two graders may start at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        seeds = _read(path)
        if unit not in seeds:
            seeds = {**seeds, unit: secrets.randbelow(1 << 31)}
            _write(path, seeds)
    return seeds[unit]


def _read(path: Path) -> dict[str, int]:
    try:
        seeds = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); restore it from a copy, or marks will not repeat") from None
    if not isinstance(seeds, dict) or not all(type(value) is int for value in seeds.values()):
        raise ValueError(f"{path} is damaged; restore it from a copy, or marks will not repeat")
    return seeds


def _write(path: Path, seeds: dict[str, int]) -> None:
    write_atomic(path, (json.dumps(seeds, indent=1) + "\n").encode())
