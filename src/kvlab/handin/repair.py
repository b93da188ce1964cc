"""Set a hand-in right: the released notebook with the learner's answers in their places."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from . import answers


def repaired(data: bytes, released: Mapping[str, Any]) -> bytes:
    """The released notebook with the answers of a hand-in, as a file. Raises Unreadable.

    All ids and locked cells are as released, and each answer is there once: the one that the grader takes. So both files
    get the same marks. Other cells of the learner's are not in it; they stay in the original.
    """
    found = answers.collect(data, released)
    if found.unreadable:
        raise answers.Unreadable(found.unreadable)
    notebook = copy.deepcopy(dict(released))
    names = {place.grade_id: place.name for place in answers.places(released)}
    for cell in notebook["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        source = found.answers.get(names.get(grade_id, ""))
        if source is not None:
            cell["source"] = source.splitlines(keepends=True)
    return dump(notebook)


def dump(notebook: Mapping[str, Any]) -> bytes:
    """A notebook as Jupyter writes it."""
    return (json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()
