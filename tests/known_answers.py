"""The known answers of one unit and its check cells, for `test_answers_NN.py`: one is run on the other as a grader does."""

import linecache
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import ROOT
from kvgrade.stubs import clear
from kvgrade.units import read_unit
from kvlab import check


def key(path: Path) -> str:
    """How the tables name an answer: exercise/file."""
    return f"{path.parent.name}/{path.stem}"


class KnownAnswers:
    """Solutions and check cells of a unit by exercise, and the files of grading/answers/ that belong to it."""

    def __init__(self, unit: str, exercises: Sequence[str]) -> None:
        cells = read_unit(ROOT / "grading" / "units" / f"{unit}.py")
        self.exercises = tuple(exercises)
        self.solutions = {str(cell.name): cell.source for cell in cells.with_role("exercise")}
        self.checks = {str(cell.name): cell.source for cell in cells.with_role("check")}
        folder = ROOT / "grading" / "answers"
        self.answers = [path for name in exercises for path in sorted((folder / name).glob("*.py"))]
        self.right = [path for path in self.answers if path.name.startswith("right_")]
        self.wrong = [path for path in self.answers if path.name.startswith("wrong_")]

    def enough(self, diagnoses: dict[str, str]) -> None:
        """Each exercise has a check, three right and five wrong answers, and each wrong one a row in the table."""
        assert tuple(self.solutions) == tuple(self.checks) == self.exercises
        for exercise in self.exercises:
            assert sum(path.parent.name == exercise for path in self.right) >= 3
            assert sum(path.parent.name == exercise for path in self.wrong) >= 5
        assert len(self.right) + len(self.wrong) == len(self.answers), "a file is named right_... or wrong_..."
        assert {key(path) for path in self.wrong} == set(diagnoses)

    def run(self, exercise: str, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Execute an answer, then the check cell, the way a grader does: a failed check raises."""
        monkeypatch.setenv("KVLAB_STRICT", "1")
        names: dict[str, object] = {"math": math, "np": np, "torch": torch, "check": check, "__name__": "__main__"}
        for cell, source in (("answer", f"# exercise: {exercise}\n{answer}"), ("check", self.checks[exercise])):
            name = f"<{cell} {exercise}>"
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            exec(compile(source, name, "exec"), names)

    def run_file(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run an answer of grading/answers/."""
        self.run(path.parent.name, path.read_text(encoding="utf-8"), monkeypatch)

    def gets(self, path: Path, words: str, stopped: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A wrong answer fails, and the rule that its panel shows holds these words.

        stopped: what the panel quotes in place of two values when the answer ends in an error where none is due.
        """
        with pytest.raises(AssertionError) as caught:
            self.run_file(path, monkeypatch)
        panel = str(caught.value)
        assert f"{path.parent.name}: not right yet" in panel
        assert "  the check ran: " in panel
        if stopped:
            assert stopped in panel
        else:
            assert "  expected: " in panel and "  came: " in panel
        assert words in panel.split("the rule: ")[1]

    def is_not_attempted(self, exercise: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The stub that learners get is told apart from a wrong answer."""
        stub = clear(self.solutions[exercise], "raise NotImplementedError")
        with pytest.raises(AssertionError, match=f"{exercise}: not attempted yet"):
            self.run(exercise, stub, monkeypatch)

    def refuses(self, exercise: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """An answer that hands the whole job to the function `name` is told that this one is closed."""
        module, _, function = name.rpartition(".")
        answer = f"from {module} import {function} as whole_job\n"
        answer += f"def {exercise}(*args, **kwargs):\n    return whole_job(*args, **kwargs)"
        with pytest.raises(AssertionError, match=f"{name} is closed in this exercise"):
            self.run(exercise, answer, monkeypatch)
