"""What several of the `oddities` files use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from textwrap import dedent
from typing import Any

from hostile.model import (
    EXERCISES,
    FULL,
    MAIN,
    Expect,
    HandIn,
    Material,
    Notebook,
    Range,
    Trick,
    Word,
    answer,
    dump,
    filled,
    marked,
)

Edit = Callable[[Notebook, Material], None]


def _odd(
    name: str, what: str, edit: Edit, *, expect: Expect = FULL, files: HandIn | None = None, **options: Any
) -> Trick:
    """Right answers, and the notebook changed by `edit`."""

    def make(m: Material) -> HandIn:
        notebook = filled(m, m.right)
        edit(notebook, m)
        return {MAIN: dump(notebook, **options), **(files or {})}

    return Trick(name, what, True, make, expect)


def _above(name: str, what: str, code: str, expect: Expect = FULL) -> Trick:
    """Right answers with `code` above each of them, under the marker line."""
    text = dedent(code).strip("\n")

    def edit(notebook: Notebook, m: Material) -> None:
        for exercise, source in m.right.items():
            answer(notebook, exercise)["source"] = marked(exercise, f"{text}\n\n{source}")

    return _odd(name, what, edit, expect=expect)


def _styles(name: str, what: str, sources: Mapping[str, str], expect: Expect = FULL) -> Trick:
    """Right answers, some of them written in another style."""

    def edit(notebook: Notebook, m: Material) -> None:
        for exercise, source in sources.items():
            answer(notebook, exercise)["source"] = marked(exercise, dedent(source).strip("\n") + "\n")

    return _odd(name, what, edit, expect=expect)


def _sources(change: Callable[[str, str], Any]) -> Edit:
    """Change the text of each answer cell: `change(exercise, source)`."""

    def edit(notebook: Notebook, _: Material) -> None:
        for exercise in EXERCISES:
            cell = answer(notebook, exercise)
            cell["source"] = change(exercise, cell["source"])

    return edit


def _case(**marks: Word | Range) -> Expect:
    every: dict[str, Word | Range] = dict.fromkeys(EXERCISES, "full")
    return Expect(every | marks)
