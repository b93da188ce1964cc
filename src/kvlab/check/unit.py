"""Hints and solutions, read from the authored units where `grading/` is present. A learner's copy works without it."""

from __future__ import annotations

import difflib
import re

from kvlab import paths
from kvlab.check.panel import State
from kvlab.check.runner import last_state
from kvlab.jsonfile import read_json

_MARKERS = ("### BEGIN SOLUTION", "### END SOLUTION")


def hint(name: str, n: int = 1) -> None:
    """Print hint n (1 to 3) of an exercise; the fold-outs in the notebook hold the same text."""
    cell = _cell("hints", name)
    if cell is None and _unknown(name):
        return
    if cell is None:
        print(f"No hints for {name} here: open the fold-outs above the check cell in the notebook.")
        return
    text = "\n".join(re.sub(r"^# ?", "", line) for line in cell)
    items = re.split(r"^\d+\. +", text, flags=re.M)[1:]
    if not 1 <= n <= len(items):
        raise ValueError(f"{name} has hints 1 to {len(items)}; there is no hint {n}.")
    print(f"Hint {n} for {name}: {items[n - 1].strip()}")


def solution(name: str) -> None:
    """Print a solution, after an attempt: once the check cell has seen an answer that is not the empty stub."""
    if _cell("exercise", name) is None and _unknown(name):
        return
    if last_state(name) in (None, State.NOT_ATTEMPTED):
        print(f"Try {name} first: write an answer, run its check, then ask again. The hints may be enough.")
        return
    cell = _cell("exercise", name)
    if cell is None:
        print(f"The solution of {name} is not in this copy of the course: your instructor has it.")
        return
    print("\n".join(line for line in cell if line.strip() not in _MARKERS).strip())


def _unknown(name: str) -> bool:
    """Whether the course has no exercise of this name; says so, with the name that was probably meant."""
    try:
        path = paths.data_dir() / "exercises.json"
    except FileNotFoundError:
        return False
    known = list(read_json(path, dict)) if path.exists() else []
    if not known or name in known:
        return False
    lower = {item.lower(): item for item in known}
    near = difflib.get_close_matches(name.lower(), lower, 1)
    print(
        f"No exercise {name}{f'; did you mean {lower[near[0]]}?' if near else '. `course.exercises()` lists them all.'}"
    )
    return True


def _cell(role: str, name: str) -> list[str] | None:
    """The lines of the authored cell with this role and name, or None when there is none or no `grading/`."""
    root = paths.repo_root()
    if root is None:
        return None
    for path in sorted((root / "grading" / "units").glob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        marks = [i for i, line in enumerate(lines) if re.match(r"# %%(\s|$)", line)]
        for mark, end in zip(marks, [*marks[1:], len(lines)], strict=True):
            if re.search(rf'\s{role}="{re.escape(name)}"(\s|$)', lines[mark]):
                return lines[mark + 1 : end]
    return None
