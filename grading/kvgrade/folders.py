"""Make a hand-in's folder safe and plain before anything in it is read: by nbgrader's exporter, or by `kvgrade grade`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from . import handin
from .texts import clean

SET_ASIDE = ".set-aside"
"""Ending of what a hand-in may not bring: nbgrader_config.py tells nbgrader to ignore it."""

REPAIRED = ".repaired.ipynb"
"""Ending of the clean copies that `check --repair` writes beside a hand-in."""


def set_aside(folder: Path, say: Callable[[str], object]) -> None:
    """Rename what nbgrader would stumble over when it copies a hand-in: links, pipes, devices, a broken timestamp.

    nbgrader follows links, so one to a file of the instructor's would come back to its owner with the feedback; a
    broken timestamp ends the run for the whole class. Nothing is deleted.
    """
    for where, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(where, name)
            mode = path.lstat().st_mode
            odd = not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
            if name == "timestamp.txt" and not (stat.S_ISREG(mode) and _is_timestamp(path)):
                odd = True
            if odd and not name.endswith(SET_ASIDE):
                target = _free_name(path)
                path.rename(target)
                say(clean(f"{path} is no plain file, or no timestamp: it was renamed to {target.name} and not read"))


def _free_name(path: Path) -> Path:
    """A name that is ignored by nbgrader and not taken, short enough for any file system."""
    for number in range(10_000):
        target = path.with_name(f"{path.name[:80]}{f'-{number}' if number else ''}{SET_ASIDE}")
        if not os.path.lexists(target):
            return target
    raise FileExistsError(f"{path.parent} holds ten thousand files of one name")


def other_notebooks(wanted: Path) -> list[Path]:
    """The notebooks of a hand-in that do not have the name `wanted`. Clean copies count only where they stand alone."""
    found = sorted(path for path in wanted.parent.glob("*.ipynb") if path != wanted)
    originals = [path for path in found if not path.name.endswith(REPAIRED)]
    return originals if originals or os.path.lexists(wanted) else found


def adopt(folder: Path, say: Callable[[str], object]) -> list[str]:
    """Copy a lone notebook under another name, such as `01_kv_cache (1).ipynb`, to the name that nbgrader wants.

    A copy is made again when its original has changed. Returns the new copy's path, or nothing where the right name is
    taken, the choice is not clear, or the file is not one that would be read.
    """
    wanted, note = folder / f"{folder.name}.ipynb", folder / f"copied-from{SET_ASIDE}"
    others = other_notebooks(wanted)
    made_by_us = note.is_file() and not note.is_symlink()
    if len(others) != 1 or (os.path.lexists(wanted) and not made_by_us):
        return []
    try:
        data = handin.read(others[0])
    except handin.Unreadable:
        return []
    known = os.path.lexists(wanted)
    if known and handin.read(wanted) == data:
        return []
    partial = folder / f"{folder.name}.part{SET_ASIDE}"
    partial.write_bytes(data)
    partial.replace(wanted)
    note.write_text(f"{others[0].name!a}\n", encoding="ascii")
    say(clean(f"{others[0]} was copied to {wanted.name}, the name under which it is graded"))
    return [] if known else [str(wanted)]


def _is_timestamp(path: Path) -> bool:
    from nbgrader.utils import parse_utc

    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(200)
        parse_utc(text.strip())
    except (ValueError, OverflowError, TypeError, AttributeError):
        return False
    return len(text) < 200
