"""Keep the bytes of a whole class out of memory while it is not clear yet which of them count."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, field
from typing import IO


@dataclass(frozen=True)
class Kept:
    """Bytes in a spool. Two are equal when their content is."""

    digest: str
    size: int
    offset: int = field(compare=False)
    file: IO[bytes] = field(compare=False, repr=False)

    def read(self) -> bytes:
        self.file.seek(self.offset)
        return self.file.read(self.size)


class Spool:
    """One temporary file without a name: it is gone when the process ends, however it ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._end = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keep(self, data: bytes) -> Kept:
        self._file.seek(self._end)
        self._file.write(data)
        kept = Kept(hashlib.sha256(data).hexdigest(), len(data), self._end, self._file)
        self._end += len(data)
        return kept
