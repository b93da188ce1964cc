"""Small file helpers: hashes, writing in one step, and notebooks as plain JSON."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from kvlab.cli.errors import CommandError


def digest(data: bytes) -> str:
    """SHA-256 as hex digits."""
    return hashlib.sha256(data).hexdigest()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that it holds either the old bytes or all of the new ones, whatever happens in between.

    Raises CommandError, with the reason, when the folder cannot be written to.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes a private file; a notebook gets the rights that any other new file would have.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise CommandError(
            f"Cannot write {path}: {error.strerror or error}. "
            "Check the rights and the free space of that folder, or choose another one."
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
    """The bytes of a released notebook. Raises CommandError when the file is damaged."""
    data = path.read_bytes()
    try:
        parse_notebook(data)
    except ValueError as error:
        raise CommandError(
            f"The released notebook {path} is damaged: {error}. Get the course's files again."
        ) from error
    return data


def cell_source(cell: dict[str, Any]) -> str:
    """The text of a cell; nbformat allows a string or a list of lines."""
    source = cell.get("source", "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source)
