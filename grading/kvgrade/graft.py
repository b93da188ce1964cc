"""The graded notebook: the released one, with the answers put in and the marks as outputs of its check cells.

Works on a notebook as plain JSON and as nbformat's nodes alike, and changes it in place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from . import handin

KEY = "kvgrade"
"""Where a graded notebook's metadata hold what was read and noted."""


def answers(found: Mapping[str, str], notebook: Mapping[str, Any]) -> dict[str, str]:
    """The answers of a hand-in as they are graded and shown, by exercise or question."""
    kinds = {place.name: place.cell_type for place in handin.places(notebook)}
    return {name: _displayable(source, kinds[name]) for name, source in found.items()}


def put(notebook: Any, given: Mapping[str, str], facts: Sequence[str], unreadable: str) -> None:
    """Put answers, made by `answers`, into their cells, and note what was found."""
    names = {place.grade_id: place.name for place in handin.places(notebook)}
    for cell in notebook["cells"]:
        name = names.get(_grade_id(cell), "")
        if name in given:
            cell["source"] = given[name]
    note(notebook, sorted(given), facts, unreadable)


def note(notebook: Any, answered: Sequence[str], facts: Sequence[str], unreadable: str) -> None:
    """Write what was read and noted into the notebook's metadata."""
    content = {"answered": list(answered), "facts": list(facts), "unreadable": unreadable}
    notebook["metadata"][KEY] = type(notebook["metadata"])(content)


def mark(notebook: Any, marks: Mapping[str, tuple[float, str]]) -> None:
    """Leave (points, feedback) of each exercise as the outputs of its check cell, where nbgrader looks for them."""
    for cell in notebook["cells"]:
        name = _grade_id(cell).removeprefix("check-")
        if cell["cell_type"] == "code" and _nbgrader(cell).get("grade") and name in marks:
            points, words = marks[name]
            points = float(min(points, float(_nbgrader(cell)["points"])))
            node = type(cell)
            cell["outputs"] = [
                node({"output_type": "stream", "name": "stdout", "text": words}),
                node(
                    {
                        "output_type": "execute_result",
                        "metadata": node(),
                        "data": node({"text/plain": repr(points)}),
                        "execution_count": 1,
                    }
                ),
            ]


def checks(notebook: Mapping[str, Any]) -> list[str]:
    """The exercises of a released notebook, in order."""
    cells = (cell for cell in notebook["cells"] if _nbgrader(cell).get("grade") and cell["cell_type"] == "code")
    return [_grade_id(cell).removeprefix("check-") for cell in cells]


def _nbgrader(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = cell["metadata"].get("nbgrader", {})
    return found


def _grade_id(cell: Mapping[str, Any]) -> str:
    return str(_nbgrader(cell).get("grade_id", ""))


def _displayable(source: str, cell_type: str) -> str:
    """An answer as it stands in the graded notebook, which becomes a web page.

    Lines of blanks take its highlighter quadratic time; a written answer could bring a script along.
    """
    source = re.sub(r"^[ \t\f\v]+$", "", source.replace("\r\n", "\n"), flags=re.M)
    source = re.sub(r"\n{100,}", "\n" * 100, source)
    if cell_type == "code":
        return source
    source = re.sub(r"<(?=[A-Za-z/?])", "&lt;", source.replace("&#", "&amp;#"))
    return re.sub(r"(?i)\b(javascript|vbscript|data)\s*:", r"\1 :", source)  # no link that runs
