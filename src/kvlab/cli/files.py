"""Small file helpers: hashes, writing in one step, and notebooks as plain JSON."""

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from kvlab import atomic
from kvlab.cli.errors import CommandError

# What `write_atomic` leaves when it is killed halfway: ".NAME.RANDOM.tmp".
LEFTOVER = re.compile(r"\.(.+\.ipynb|manifest.*\.json)\.[a-z0-9_]{8}\.tmp")
LEFTOVER_SECONDS = 3600


def full_path(path: Path) -> Path:
    """The absolute path without links. Unlike `Path.resolve` it raises nothing, whatever the path is."""
    return Path(os.path.realpath(path.expanduser()))


def digest(data: bytes) -> str:
    """SHA-256 as hex digits."""
    return hashlib.sha256(data).hexdigest()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that it holds either the old bytes or all of the new ones, whatever happens in between.

    A link stays a link: the file that it names is written. Raises CommandError, with the reason, when that fails.
    """
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_atomic(path, data, 0o666 & ~_umask(), ".tmp")  # the rights that any other new file would have
    except OSError as error:
        raise CommandError(
            f"Cannot write {path}: {error.strerror or error}. "
            "Check the rights and the free space of that folder, or choose another one."
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def remove_leftovers(folder: Path) -> None:
    """Remove what killed writes left in a folder. Young files stay: another process may be writing them now."""
    oldest = time.time() - LEFTOVER_SECONDS
    for path in folder.glob(".*.tmp"):
        if LEFTOVER.fullmatch(path.name) and path.is_file() and path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


def parse_notebook(data: bytes) -> dict[str, Any]:
    """A notebook as a dict with a list of cells. Raises ValueError with the reason when it is none."""
    try:
        notebook = json.loads(data.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from error
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError("it has no list of cells")
    return notebook


def read_release(path: Path) -> bytes:
    """The bytes of a released notebook. Raises CommandError when the file is damaged or cannot be read."""
    try:
        data = path.read_bytes()
        parse_notebook(data)
    except OSError as error:
        raise CommandError(
            f"The released notebook {path} cannot be read: {error.strerror or error}. Get the course's files again."
        ) from error
    except ValueError as error:
        raise CommandError(
            f"The released notebook {path} is damaged: {error}. Get the course's files again."
        ) from error
    return data


def cell_source(cell: dict[str, Any]) -> str:
    """The text of a cell; nbformat allows a string or a list of lines."""
    source = cell.get("source", "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source)
