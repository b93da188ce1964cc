"""Which prefixes may be read, and until when. The engine keeps the blocks; this book says whose time is over."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Entry:
    """A prefix that was written. Times in seconds of the server's clock."""

    ttl: float
    expires: float


class Ledger:
    """Entries by the digest of their prefix. Not for several threads: the worker's thread owns it."""

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def alive(self, digest: bytes, now: float) -> bool:
        """Whether the prefix was written and its time is not over."""
        entry = self._entries.get(digest)
        return entry is not None and now < entry.expires

    def touch(self, digest: bytes, start: float) -> None:
        """A read begins an entry's time again, from the start of the request that reads."""
        entry = self._entries[digest]
        entry.expires = max(entry.expires, start + entry.ttl)

    def write(self, digest: bytes, start: float, ttl: float) -> None:
        """Enter a prefix; its time counts from the start of the request that writes."""
        self._entries[digest] = Entry(ttl, start + ttl)

    def forget_expired(self, now: float) -> None:
        """Drop what can't be read any more, so that the book doesn't grow."""
        for digest in [digest for digest, entry in self._entries.items() if now >= entry.expires]:
            del self._entries[digest]


def namespace(*parts: str) -> bytes:
    """A name for a cache of its own: provider, key, model."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()


def extend(digest: bytes, tokens: Sequence[int]) -> bytes:
    """The digest of a prefix that is longer by these tokens."""
    return hashlib.sha256(digest + array("q", tokens).tobytes()).digest()
