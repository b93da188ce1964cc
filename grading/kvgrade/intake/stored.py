"""The form in which a hand-in is kept: its cells' sources, and nothing that a grader does not read.

Colab writes its user's name, picture address and account number into every cell that was run; outputs can show anything.
Neither is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvlab.handin import answers
from kvlab.handin.repair import dump

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def stored(data: bytes) -> bytes:
    """A notebook file as it is kept: the grader finds the same answers and facts in it. Raises handin.Unreadable."""
    _, notebook = answers.parse(data)
    taken: set[str] = set()
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    kept = [_cell(cell, source, taken) for cell in cells if (source := answers.text_of(cell.get("source"))) is not None]
    ours = {"unit": answers.unit_of(notebook)[:100], "release": answers.release_of(notebook)}
    metadata: dict[str, Any] = {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    if any(ours.values()):
        metadata["kvlab"] = {key: value for key, value in ours.items() if value}
    return dump({"cells": kept, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def _cell(cell: Mapping[str, Any], source: str, taken: set[str]) -> dict[str, Any]:
    kind = cell.get("cell_type")
    kept: dict[str, Any] = {
        "cell_type": kind if kind in ("code", "markdown") else "raw",
        "id": _id(cell.get("id"), taken),
        "metadata": _metadata(cell.get("metadata")),
        "source": source.splitlines(keepends=True),
    }
    if kind == "code":
        kept |= {"execution_count": None, "outputs": []}
    return kept


def _id(value: Any, taken: set[str]) -> str:
    """The cell's own id where it is one, else one by its place: a notebook of format 4.5 has an id in every cell."""
    own = value if isinstance(value, str) and _ID.fullmatch(value) and value not in taken else f"cell-{len(taken)}"
    while own in taken:
        own += "-"
    taken.add(own)
    return own


def _metadata(metadata: Any) -> dict[str, Any]:
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if not isinstance(marks, dict):
        return {}
    plain = {
        key: value for key, value in marks.items() if isinstance(value, bool | int | str) and len(f"{key}{value}") < 300
    }
    return {"nbgrader": plain} if plain else {}
