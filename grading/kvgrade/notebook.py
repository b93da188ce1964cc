"""A unit as a notebook (plain dicts in nbformat 4.5), with nbgrader's metadata and its solutions still inside."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from .stubs import clear
from .units import Cell, Unit
from .validate import hints

Notebook = dict[str, Any]

MANUAL_MARKER = "<!-- answer: {name} -->"
"""First line of a manual answer cell: a second identity for editors that drop metadata, like `# exercise: NAME`."""

_FLAGS = {  # grade, solution, locked: nbgrader's own terms
    "exercise": (False, True, False),
    "check": (True, False, True),
    "manual": (True, True, False),
}


def source_notebook(unit: Unit, code_stub: str, text_stub: str) -> Notebook:
    """nbgrader's source notebook of a unit: with solutions, no outputs, ids that depend on the unit's text only."""
    taken: set[str] = set()
    cells = [_cell(unit, cell, taken) for cell in unit.cells]
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "kvlab": {"release": _release(cells, code_stub, text_stub), "unit": unit.name},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def dumps(notebook: Notebook) -> str:
    """The notebook as nbformat writes it: sources as lists of lines, keys sorted, one space of indent."""
    out = {**notebook, "cells": [{**c, "source": c["source"].splitlines(keepends=True)} for c in notebook["cells"]]}
    return json.dumps(out, ensure_ascii=False, indent=1, sort_keys=True, separators=(",", ": ")) + "\n"


def grade_id(cell: Cell) -> str:
    """ "answer-NAME" for what a learner writes, "check-NAME" for what marks it."""
    return ("check-" if cell.role == "check" else "answer-") + str(cell.name)


def _cell(unit: Unit, cell: Cell, taken: set[str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"tags": cell.tags}  # always a list: papermill once failed without one
    source = cell.source
    if cell.role in _FLAGS:
        grade, solution, locked = _FLAGS[cell.role]
        metadata["nbgrader"] = {
            "grade": grade,
            "grade_id": grade_id(cell),
            "locked": locked,
            "schema_version": 3,
            "solution": solution,
            "task": False,
        }
        if grade:
            metadata["nbgrader"]["points"] = cell.options["points"]
    if cell.role == "manual":
        source = MANUAL_MARKER.format(name=cell.name) + "\n\n" + source
    elif cell.role == "hints":
        source = fold(str(cell.name), hints(unit, cell))
    out: dict[str, Any] = {
        "cell_type": cell.cell_type,
        "id": _id(unit, cell, taken),
        "metadata": metadata,
        "source": source,
    }
    if cell.cell_type == "code":
        out |= {"execution_count": None, "outputs": []}
    return out


def fold(name: str, items: list[str]) -> str:
    """Hints as fold-outs, each inside the one before, so that they open one by one in any viewer and run no code."""
    out = ""
    for number, text in reversed(list(enumerate(items, start=1))):
        summary = f"Hint {number} for <code>{name}</code>" if number == 1 else f"Hint {number}"
        # The blank lines make the inside markdown again.
        out = f"<details><summary>{summary}</summary>\n\n{text}\n\n{out}</details>\n"
    return out.rstrip("\n")


def _id(unit: Unit, cell: Cell, taken: set[str]) -> str:
    """From the unit and the grade id, or the text for other cells: adding a cell does not rename the cells below it."""
    seed = grade_id(cell) if cell.role in _FLAGS else f"{cell.cell_type}\n{cell.source}"
    for copy in range(len(taken) + 1):
        found = hashlib.sha256(f"{unit.name}\n{seed}\n{copy}".encode()).hexdigest()[:12]
        if found not in taken:
            break
    taken.add(found)
    return found


def _release(cells: list[dict[str, Any]], code_stub: str, text_stub: str) -> str:
    """A hash of what learners see, so that a better solution is not a new release."""
    seen = [
        [c["cell_type"], clear(c["source"], code_stub if c["cell_type"] == "code" else text_stub), c["metadata"]]
        for c in cells
    ]
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:12]
