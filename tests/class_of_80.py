"""A class of eighty for unit 01: what an instructor may find in one evening's zip, with the marks that are due.

Two dozen honest hand-ins made of known answers, perfect ones in several styles and partly right ones; the other 56 are
taken from the catalogue of hostile and odd hand-ins (tests/hostile). Nothing is random: the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostile import tricks
from hostile.model import EXERCISES, MAIN, UNIT, HandIn, Material, Trick, dump, filled, place

# Odd and hostile ones, by what they stand for.
CHOSEN = {
    "empty": ("honest-empty", "cells-empty"),
    "crashing": ("exit-hard", "segfault", "recursion", "first-answer-dies"),
    "looping": ("loop-at-once", "loop-in-call", "loop-deaf", "every-answer-hangs"),
    "greedy": ("memory-hog", "memory-files", "fork-bomb", "disk-filler", "million-files", "output-flood"),
    "cell accidents": (
        "copy-unedited-after",
        "copy-identical",
        "split-cell",
        "check-cells-deleted",
        "only-answers-left",
        "cells-reversed",
        "answers-markdown",
        "marker-lost",
        "metadata-lost",
        "right-code-elsewhere",
    ),
    "rewriters": (
        "colab",
        "colab-stripped",
        "vscode",
        "no-ids-in-nbformat-4-5",
        "all-metadata-stripped",
        "windows-line-endings",
        "file-with-bom",
        "kernel-of-r",
    ),
    "unreadable": ("truncated", "empty-file", "not-json", "link-to-solutions", "pipe-as-notebook"),
    "cheats": (
        "checks-pass",
        "checks-skip-execution",
        "points-1000",
        "schema-removed",
        "outputs-forged",
        "liar-equal",
        "result-pickle",
        "always-value-error",
        "knows-the-visible-checks",
        "patch-testing",
        "ast-transformer",
        "forged-result",
        "frames-send",
        "fds-forged",
        "kill-parent",
        "read-solutions",
        "gradebook-scores",
    ),
}
SLOW = CHOSEN["looping"]
"""Those that use up their time."""


@dataclass(frozen=True)
class Student:
    """A student's hand-in. `answers`: its known answers by exercise, for an honest one; `trick` for the others."""

    name: str
    files: HandIn
    answers: Mapping[str, str] | None = None
    trick: Trick | None = None


def students(root: Path) -> list[Student]:
    """The class, sorted by name. `root` is the course's folder."""
    material = tricks.material(root)
    odd = [
        Student(trick.name, trick.make(material), trick=trick)
        for names in CHOSEN.values()
        for trick in tricks.named(*names)
    ]
    return sorted([*_honest(root, material), *odd], key=lambda student: student.name)


def hand_in(students: list[Student], folder: Path) -> None:
    """Lay the hand-ins down in the folder `submitted`."""
    for student in students:
        place(student.files, folder / student.name / UNIT)


def _honest(root: Path, material: Material) -> list[Student]:
    """Twelve perfect ones, each style of each exercise among them, and twelve with one to four wrong answers."""
    known = {name: _known(root / "grading" / "answers" / name) for name in EXERCISES}
    found = []
    for number in range(24):
        answers = {}
        for place_, name in enumerate(EXERCISES):
            right, wrong = known[name]
            if number >= 12 and (number - 12 + place_) % 4 <= (number - 12) // 3:
                answers[name] = wrong[(number * 5 + place_) % len(wrong)]
            else:
                answers[name] = right[(number + place_) % len(right)]
        kind = "perfect" if number < 12 else "partly"
        files = {MAIN: dump(filled(material, answers))}
        found.append(Student(f"{kind}-{number:02}", files, answers=answers))
    return found


def _known(folder: Path) -> tuple[list[str], list[str]]:
    """The texts of the right and of the wrong answers in a folder."""
    right, wrong = (
        [path.read_text(encoding="utf-8") for path in sorted(folder.glob(f"{kind}_*.py"))]
        for kind in ("right", "wrong")
    )
    return right, wrong
