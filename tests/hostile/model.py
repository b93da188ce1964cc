"""What a trick is, what it is made of, and the few moves from which most tricks are built.

A trick makes a hand-in from the released notebook and from known right and wrong answers, and says what a grader owes
it. Making one is pure: the same material gives the same bytes, and nothing is run.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

UNIT = "01_kv_cache"
MAIN = f"{UNIT}.ipynb"
POINTS = {"positions_processed": 2.0, "KVCache": 4.0, "cached_attention": 4.0, "kv_cache_bytes": 2.0}  # automatic ones
EXERCISES = tuple(POINTS)
# Known answers that the material takes from grading/answers/. The wrong ones fail a visible check each.
RIGHT = dict(zip(EXERCISES, ("right_closed_form", "right_arrays", "right_vectorised", "right_product"), strict=True))
WRONG = dict(
    zip(EXERCISES, ("wrong_last_token_fed_back", "wrong_k_for_v", "wrong_unscaled", "wrong_keys_only"), strict=True)
)

Notebook = dict[str, Any]


@dataclass(frozen=True)
class Link:
    """A symbolic link in a hand-in."""

    target: str


@dataclass(frozen=True)
class Fifo:
    """A named pipe in a hand-in: a reader that opens it waits for ever."""


HandIn = Mapping[str, bytes | Link | Fifo]
"""File name in submitted/<student>/01_kv_cache/ -> content. A name with / makes folders."""

Word = Literal["full", "zero", "as wrong", "at most wrong", "any"]
"""full: all points. zero: none. as wrong: exactly what the material's wrong answer earns when handed in plainly.
at most wrong: no point more than that (a cheat may cost its owner marks). any: the owner's own loss or luck."""
Range = tuple[float, float]
"""Least and most share of an exercise's points, 0 to 1."""
Marks = Word | Mapping[str, Word | Range]
Flag = Literal[
    "changed", "copied", "missing", "killed", "time", "memory", "output", "protocol", "refused", "unreadable"
]
"""What a grader may observe: a locked cell changed, an answer cell copied, missing; the answer's process killed; a limit
of time, memory or output hit; the protocol broken; a returned value refused; the file unreadable."""


@dataclass(frozen=True)
class Expect:
    """What a grader owes the hand-in.

    `marks` is one word for every exercise, or one entry for each. `most` bounds the share of all automatic points.
    `flags` are observations of which at least one should be reported; none are asked for when it is empty.
    `graded` is False where there is nothing to grade: the owner gets a sentence, everybody else is graded. None: both
    are fair, a damaged file may be read or refused.
    """

    marks: Marks
    graded: bool | None = True
    flags: tuple[Flag, ...] = ()
    most: float = 1.0

    def of(self, exercise: str) -> Word | Range:
        """What one exercise is due."""
        return self.marks if isinstance(self.marks, str) else self.marks[exercise]


FULL = Expect("full")
ZERO = Expect("zero")
AS_WRONG = Expect("as wrong")
AT_MOST_WRONG = Expect("at most wrong")


@dataclass(frozen=True)
class Material:
    """The released notebook, and answers by exercise. Whoever makes a hand-in takes copies."""

    notebook: Notebook
    right: Mapping[str, str]
    wrong: Mapping[str, str]


@dataclass(frozen=True)
class Trick:
    """One hand-in. `harmful`: never to be run outside a jail; it could hurt the machine or leave traces behind."""

    name: str
    what: str
    honest: bool
    make: Callable[[Material], HandIn] = field(repr=False)
    expect: Expect
    harmful: bool = False


def material(root: Path) -> Material:
    """The material of the course in the folder `root`: notebooks/ and grading/answers/."""
    notebook = json.loads((root / "notebooks" / MAIN).read_text(encoding="utf-8"))
    answers = root / "grading" / "answers"
    right, wrong = (
        {name: (answers / name / f"{file}.py").read_text(encoding="utf-8") for name, file in chosen.items()}
        for chosen in (RIGHT, WRONG)
    )
    return Material(notebook, right, wrong)


def place(hand_in: HandIn, folder: Path) -> None:
    """Lay the files of a hand-in down in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in hand_in.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            path.symlink_to(content.target)
        elif isinstance(content, Fifo):
            os.mkfifo(path)
        else:
            path.write_bytes(content)


# ---- notebooks


def marked(exercise: str, source: str) -> str:
    """The text of an answer cell: its marker line, then the source."""
    return f"# exercise: {exercise}\n{source}"


def filled(m: Material, answers: Mapping[str, str]) -> Notebook:
    """The released notebook with these answers typed into its answer cells; exercises left out keep their stub."""
    notebook = copy.deepcopy(m.notebook)
    for exercise, source in answers.items():
        answer(notebook, exercise)["source"] = marked(exercise, source)
    return notebook


def answer(notebook: Notebook, exercise: str) -> dict[str, Any]:
    """The answer cell of an exercise."""
    return by_id(notebook, f"answer-{exercise}")


def check(notebook: Notebook, exercise: str) -> dict[str, Any]:
    """The check cell of an exercise."""
    return by_id(notebook, f"check-{exercise}")


def by_id(notebook: Notebook, grade_id: str) -> dict[str, Any]:
    """The first cell with this grade id."""
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id:
            return cell
    raise KeyError(f"the notebook has no cell with the grade id {grade_id}")


def code_cell(source: str, **metadata: Any) -> dict[str, Any]:
    """A new code cell, without an id."""
    return {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [], "source": source}


def dump(notebook: Notebook, **options: Any) -> bytes:
    """A notebook file as Jupyter writes it."""
    return (json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True, **options) + "\n").encode()


# ---- moves


def edited(
    name: str,
    what: str,
    edit: Callable[[Notebook, Material], None],
    *,
    expect: Expect = AS_WRONG,
    files: HandIn | None = None,
    harmful: bool = False,
) -> Trick:
    """Wrong answers, and the notebook changed by `edit`."""

    def make(m: Material) -> HandIn:
        notebook = filled(m, m.wrong)
        edit(notebook, m)
        return {MAIN: dump(notebook), **(files or {})}

    return Trick(name, what, False, make, expect, harmful)


def prelude(
    name: str,
    what: str,
    code: str,
    *,
    expect: Expect = AT_MOST_WRONG,
    files: HandIn | None = None,
    harmful: bool = False,
    below: bool = False,
) -> Trick:
    """Wrong answers, and `code` above (or below) each of them, in the answer cell. NAME in it is the exercise."""
    text = dedent(code).strip("\n")

    def make(m: Material) -> HandIn:
        def cell(exercise: str, source: str) -> str:
            own = text.replace("NAME", exercise)
            return f"{source}\n\n{own}\n" if below else f"{own}\n\n\n{source}"

        return {MAIN: dump(filled(m, {e: cell(e, s) for e, s in m.wrong.items()})), **(files or {})}

    return Trick(name, what, False, make, expect, harmful)


def replaced(
    name: str,
    what: str,
    sources: Mapping[str, str],
    *,
    expect: Expect = ZERO,
    others: Literal["wrong", "right"] = "wrong",
    files: HandIn | None = None,
    harmful: bool = False,
) -> Trick:
    """These sources as answers; the other exercises have the material's wrong or right ones."""
    own = {exercise: dedent(source).strip("\n") + "\n" for exercise, source in sources.items()}

    def make(m: Material) -> HandIn:
        return {MAIN: dump(filled(m, {**(m.wrong if others == "wrong" else m.right), **own})), **(files or {})}

    return Trick(name, what, False, make, expect, harmful)


def sabotage(
    name: str, what: str, code: str, *, strict: bool = True, flags: tuple[Flag, ...] = (), harmful: bool = False
) -> Trick:
    """`code` as the answer to the first exercise, right answers to the others.

    Strict: the others must get full marks. Not strict: an attack on the grader itself, which may cost its owner all.
    """
    rest: Word = "full" if strict else "any"
    marks: dict[str, Word | Range] = {exercise: rest for exercise in EXERCISES} | {EXERCISES[0]: "zero"}
    return replaced(
        name, what, {EXERCISES[0]: code}, others="right", expect=Expect(marks, flags=flags), harmful=harmful
    )


def returning(expression: str, setup: str = "") -> dict[str, str]:
    """Answers to all exercises that return one expression, whatever they are asked."""
    head = dedent(setup).strip("\n") + "\n\n\n" if setup else ""
    functions = {
        name: f"{head}def {name}(*args, **kwargs):\n    return {expression}\n"
        for name in EXERCISES
        if name != "KVCache"
    }
    methods = "".join(
        f"\n    def {method}(self, *args, **kwargs):\n        return {expression}\n"
        for method in ("append", "view", "length", "truncate")
    )
    return functions | {
        "KVCache": f"{head}class KVCache:\n    def __init__(self, *args, **kwargs):\n        pass\n{methods}"
    }
