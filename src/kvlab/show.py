"""One small table in two forms: HTML for a notebook, aligned text for a terminal, a log or a screen without HTML."""

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# Said at each cell: within a widget JupyterLab's own look of tables does not count, and columns would touch.
_CELL = "text-align:left;padding:0.2em 1.2em 0.2em 0.3em"


@dataclass(frozen=True)
class Table:
    """A table that a notebook shows when it is the last value of a cell. `folded` hides it behind its title."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False
    notes: tuple[str, ...] = field(default=())
    width: int = 34

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row has {len(row)} cells, but the table has {len(self.header)} columns: {row}")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}

    def __str__(self) -> str:
        return self.to_text()

    def to_html(self) -> str:
        """A real table with header cells, so that a screen reader can say where it is; every text is escaped."""
        head = "".join(f'<th scope="col" style="{_CELL}">{html.escape(cell)}</th>' for cell in self.header)
        body = "".join(
            "<tr>" + "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in row) + "</tr>"
            for row in self.rows
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        title = html.escape(self.title)
        if self.folded:
            return f"<details><summary>{title}</summary>{notes}{table}</details>"
        return f"<p><strong>{title}</strong></p>{notes}{table}"

    def to_text(self) -> str:
        """Columns as wide as needed, at most `width` characters, longer cells wrapped."""
        cells = [self.header, *self.rows]
        widths = [min(self.width, max(len(row[i]) for row in cells)) for i in range(len(self.header))]
        rule = "-+-".join("-" * width for width in widths)
        lines = [self.title, *self.notes, ""]
        for number, row in enumerate(cells):
            lines += _wrapped(row, widths)
            if number == 0:
                lines.append(rule)
        return "\n".join(lines)


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
    height = max(len(column) for column in columns)
    padded = [column + [""] * (height - len(column)) for column in columns]
    return [
        " | ".join(column[i].ljust(width) for column, width in zip(padded, widths, strict=True)).rstrip()
        for i in range(height)
    ]
