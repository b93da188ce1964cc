"""What an import did, as a table for the terminal and a CSV file."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from ..texts import clean

TAKEN, UNCHANGED, LEFT, LOOK = "taken", "unchanged", "not taken", "look"
"""States of a row. `look`: a person has to."""


@dataclass(frozen=True, order=True)
class Row:
    """One file, or one student."""

    student: str
    unit: str
    file: str
    state: str
    words: str = ""
    time: str = ""


def stands(row: Row) -> bool:
    """Whether the file of this row is the hand-in that stands in submitted/ after the import, perhaps with a word on it."""
    return row.state in (TAKEN, UNCHANGED) or (row.state == LOOK and row.words.split("; ")[0] in (TAKEN, UNCHANGED))


def table(rows: Sequence[Row]) -> list[str]:
    """Rows as lines of text: those that a person has to look at come last, where they are seen."""
    shown = sorted(rows, key=lambda row: (row.state == LOOK, row))
    widths = [max([len(clean(getattr(row, name), 40)) for row in rows], default=0) for name in ("student", "unit")]
    lines = []
    for row in shown:
        student, unit = (
            clean(value, 40).ljust(width) for value, width in zip((row.student, row.unit), widths, strict=True)
        )
        words = f": {clean(row.words, 400)}" if row.words else ""
        lines.append(f"{row.state:<9}  {student}  {unit}  {clean(row.file, 120)}{words}".rstrip())
    counts = Counter(row.state for row in rows)
    lines.append(
        ", ".join(f"{counts[state]} {state}" for state in (TAKEN, UNCHANGED, LEFT)) + f", {counts[LOOK]} to look at"
    )
    return lines


def save(folder: Path, name: str, rows: Sequence[Row]) -> Path:
    """Write the rows as `NAME-N.csv`, N being the first free number."""
    folder.mkdir(parents=True, exist_ok=True)
    form = re.compile(rf"{re.escape(name)}-(\d{{1,9}})\.csv")
    taken = [int(match[1]) for path in folder.iterdir() if (match := form.fullmatch(path.name))]
    path = folder / f"{name}-{max(taken, default=0) + 1}.csv"
    with path.open("x", encoding="utf-8", newline="") as file:
        file.write(text(rows))
    return path


def text(rows: Sequence[Row]) -> str:
    """Rows as CSV. What comes from learners can't become a formula in a spreadsheet."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([item.name for item in fields(Row)])
    writer.writerows([_plain(value) for value in astuple(row)] for row in sorted(rows))
    return out.getvalue()


def _plain(value: str) -> str:
    value = clean(value, 1_000)
    return f"'{value}" if value.startswith(("=", "+", "-", "@")) else value
