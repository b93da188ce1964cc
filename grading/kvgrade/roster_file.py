"""What import and export share about rosters: reading the table, and the folder's name that an id gets."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import unicodedata
from collections import Counter
from pathlib import Path

SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,79}(?<!\.)")
"""Ids that are folder names on every system."""

MOST_BYTES = 32 << 20
_ONCE = frozenset(
    {"id", "student_id", "student id", "username", "identifier", "id number", "email address", "email"}
    | {"sis user id", "sis login id", "integration id", "github_username", "grade"}
)
"""Columns that decide whose row it is, or where a mark goes: two of one name would be a guess."""


class RosterError(ValueError):
    """A roster that can't be used. The text says what to do."""


def read_table(path: Path) -> tuple[list[list[str]], str]:
    """The rows of a CSV file, the header first, without empty rows; and its delimiter.

    The delimiter is a comma, semicolon or tab, the code UTF-8, Windows' cp1252 or, with a byte order mark, UTF-16.
    Raises RosterError for what is no such file, OSError where there is none.
    """
    if path.stat().st_size > MOST_BYTES:
        raise RosterError(f"{path} has more than {MOST_BYTES:,} bytes: that is no roster.")
    text = _text(path, path.read_bytes())
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    try:
        table = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if any(row)]
    except csv.Error as error:
        raise RosterError(
            f"{path} can't be read as CSV ({error}): mostly a quote is not closed. Export it again."
        ) from None
    if not table or "\x00" in text:
        raise RosterError(f"{path} is empty or no CSV file: export it again.")
    counts = Counter(title.strip().casefold() for title in table[0])
    twice = next((title for title in counts if counts[title] > 1 and title in _ONCE), None)
    if twice is not None:
        raise RosterError(f"{path} has {counts[twice]} columns `{twice}`: keep the one that counts, rename the others.")
    return table, delimiter


def folder_id(given: str) -> str:
    """The id, and folder's name, of a student whom a roster calls `given`; "" when nothing of it can be kept.

    A name that is safe as it is stays. Else accents go, other letters become their number in Unicode, the rest becomes
    `_`: `o'brien` is `o_brien`, `Å+1` is `A_1`. The same name gives the same id, always and everywhere.
    """
    given = given.strip()
    if SAFE.fullmatch(given):
        return given
    plain = "".join(c for c in unicodedata.normalize("NFKD", given) if not unicodedata.combining(c))
    plain = "".join(f"u{ord(c):x}" if ord(c) > 127 and c.isalnum() else c for c in plain)
    plain = re.sub(r"[^A-Za-z0-9._@-]+", "_", plain).strip("_.-")
    if len(plain) > 80:
        plain = f"{plain[:67]}-{hashlib.sha256(given.encode('utf-8', 'replace')).hexdigest()[:12]}"
    return plain if SAFE.fullmatch(plain) else ""


def _text(path: Path, data: bytes) -> str:
    """The text of a file that Excel may have written."""
    for code in ["utf-16"] if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ["utf-8-sig", "cp1252"]:
        try:
            return data.decode(code)
        except UnicodeDecodeError:
            continue
    raise RosterError(f"{path} can't be read as CSV: it is no text in UTF-8. Export it again, and keep it as UTF-8.")
