"""Read the files of a zip or a folder. Zips come from outside: nothing is written to disk by the names in them.

What is no plain file, can't be a hand-in, or is too large comes out as an entry with a problem instead of its bytes.
Zips in zips are looked into; everything that is read is bounded.
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from .. import handin

DEPTH = 3  # a platform's zip, a learner's zip in it, and one more
MOST_FILES = 50_000  # of a whole import
MOST_TOTAL = 8 << 30  # bytes read from a whole import
MOST_NESTED = (2_000, 256 << 20)  # files and bytes of one zip inside another: it is one learner's
MOST_NAME = 1_000  # characters of a path
NO_NOTEBOOK = "it is no notebook"
_JUNK_FOLDERS = frozenset({"__MACOSX", ".ipynb_checkpoints", ".git", "__pycache__", ".ipynb_aml_checkpoints"})
_JUNK_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", "timestamp.txt"})
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    OverflowError,
)
_UNIX_TIME = 0x5455  # Info-ZIP's extended timestamp: seconds since 1970, in UTC


@dataclass(frozen=True)
class Entry:
    """A file. `path` has / between its parts, zips are folders in it; `data` is None where `problem` says why.

    `packed`: it stood in a zip.
    """

    path: str
    time: datetime | None = None
    data: bytes | None = None
    problem: str = ""
    packed: bool = False


class _Budget:
    """How much may still be read."""

    def __init__(self, files: int, total: int) -> None:
        self.files, self.total = files, total

    def take(self, data: bytes) -> bytes:
        self.total -= len(data)
        if self.total < 0:
            raise ValueError("it unpacks to too many bytes")
        return data


def entries(source: Path) -> Iterator[Entry]:
    """All files of a zip, a folder, or the one file itself, in a fixed order, without what systems put beside them.

    Raises FileNotFoundError when there is nothing at `source`, ValueError when it is a zip that can't be read.
    """
    if not source.exists():
        raise FileNotFoundError(f"There is no file or folder {source}.")
    budget = _Budget(MOST_FILES, MOST_TOTAL)
    if source.is_dir():
        yield from _folder(source, budget)
    elif not zipfile.is_zipfile(source):
        yield from _one(source, source.name, budget)
    else:
        with source.open("rb") as file:
            yield from _zip(file, "", 1, budget)


def _folder(root: Path, budget: _Budget) -> Iterator[Entry]:
    for where, folders, files in os.walk(root):
        links = [name for name in folders if Path(where, name).is_symlink()]
        folders[:] = sorted(set(folders) - set(links) - _JUNK_FOLDERS)
        for name in sorted([*files, *links]):
            path = Path(where, name)
            yield from _one(path, path.relative_to(root).as_posix(), budget)


def _one(path: Path, name: str, budget: _Budget) -> Iterator[Entry]:
    if _is_junk(name):
        return
    state = path.lstat()
    when = datetime.fromtimestamp(state.st_mtime, UTC)
    if not stat.S_ISREG(state.st_mode):
        yield Entry(name, when, problem="it is a link or no file; it was not followed")
    elif _is_zip(name):
        with path.open("rb") as file:
            yield from _nested(file, f"{name}/", 2, budget)
    elif not may_be_notebook(name):
        yield Entry(name, when, problem=NO_NOTEBOOK)
    else:
        try:
            yield Entry(name, when, budget.take(handin.read(path)))
        except handin.Unreadable as error:
            yield Entry(name, when, problem=str(error))


def _zip(file: IO[bytes], prefix: str, depth: int, budget: _Budget) -> Iterator[Entry]:
    """The files of a zip. One inside another that is broken or too large costs itself only."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            budget.files -= len(members)
            if budget.files < 0:
                raise ValueError("it holds too many files")
            for info in members:
                yield from _member(archive, info, prefix, depth, budget)
    except _BROKEN as error:
        if depth == 1:
            raise ValueError(f"The zip can't be read: {error}.") from None
        yield Entry(prefix.rstrip("/"), problem=f"the zip can't be read: {error}")


def _nested(file: IO[bytes], prefix: str, depth: int, budget: _Budget) -> Iterator[Entry]:
    """One learner's zip: it may take a share of what is left, not all."""
    files, total = min(MOST_NESTED[0], budget.files), min(MOST_NESTED[1], budget.total)
    own = _Budget(files, total)
    yield from _zip(file, prefix, depth, own)
    budget.files -= files - max(own.files, 0)
    budget.total -= total - max(own.total, 0)


def _member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, prefix: str, depth: int, budget: _Budget
) -> Iterator[Entry]:
    name = _name(info)
    path, when = prefix + name, _time(info)
    if info.is_dir() or _is_junk(name):
        return
    problem = _problem(info, name)
    if len(path) > MOST_NAME:
        path, problem = path[:100], "its path is too long"
    nested = _is_zip(name)
    if not problem and nested and depth == DEPTH:
        problem = f"zips are inside each other more than {DEPTH} deep"
    if not problem and not nested and not may_be_notebook(name):
        problem = NO_NOTEBOOK
    if problem:
        yield Entry(path, when, problem=problem)
        return
    try:
        with archive.open(info) as file:
            data = file.read(handin.MOST_BYTES + 1)
    except _BROKEN as error:
        yield Entry(path, when, problem=f"it can't be unpacked: {error}")
        return
    budget.take(data)
    if len(data) > handin.MOST_BYTES:
        yield Entry(
            path, when, problem=f"it has more than {handin.MOST_BYTES:,} bytes. Its owner can clear the outputs"
        )
    elif nested:
        yield from _nested(io.BytesIO(data), f"{path}/", depth + 1, budget)
    else:
        yield Entry(path, when, data, packed=True)


def _problem(info: zipfile.ZipInfo, name: str) -> str:
    mode = info.external_attr >> 16
    if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "it is a link or no file"
    if info.flag_bits & 0x1:
        return "it is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is packed in a way that is not read here"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name) or ".." in name.split("/"):
        return "its path leads out of the zip"
    return ""


def _name(info: zipfile.ZipInfo) -> str:
    """The path in the zip. Windows writes \\ into it, macOS writes UTF-8 without saying so."""
    name = info.filename
    if not info.flag_bits & 0x800:
        try:
            name = name.encode("cp437").decode("utf-8")
        except UnicodeError:
            name = info.filename
    return name.replace("\\", "/")


def _time(info: zipfile.ZipInfo) -> datetime | None:
    """When the file was last changed. A zip's own field is local time, to two seconds; many have the exact time beside."""
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == _UNIX_TIME and size >= 5 and len(extra) >= 9 and extra[4] & 1:
            return datetime.fromtimestamp(struct.unpack_from("<i", extra, 5)[0], UTC)
        extra = extra[4 + size :]
    try:
        return datetime(*info.date_time).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def may_be_notebook(name: str) -> bool:
    """Whether a file is worth a look: browsers and mail programs turn `hw.ipynb` into `hw.ipynb.txt` or `hw.json`."""
    last = name.rpartition("/")[2].lower()
    return ".ipynb" in last or last.endswith(".json")


def _is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def _is_junk(name: str) -> bool:
    parts = name.split("/")
    return bool(_JUNK_FOLDERS & set(parts)) or parts[-1] in _JUNK_FILES or parts[-1].startswith(("._", "~$"))
