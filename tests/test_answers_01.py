"""Known answers of unit 01 against the checks that learners get: right ones pass, wrong ones fail with a diagnosis."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import ROOT
from kvlab import check

UNIT = ROOT / "grading" / "units" / "01_kv_cache.py"
ANSWERS = sorted((ROOT / "grading" / "answers").glob("*/*.py"))
EXERCISES = ("positions_processed", "KVCache", "cached_attention", "kv_cache_bytes")


def cells(role: str) -> dict[str, str]:
    """{exercise: source} of the answer or check cells, read from the text of the unit."""
    found, name = {}, None
    lines: list[str] = []
    for line in [*UNIT.read_text().splitlines(), "# %%"]:
        if line.startswith("# %%"):
            if name:
                found[name] = "\n".join(lines)
            name = line.split(f'{role}="')[1].split('"')[0] if f'{role}="' in line else None
            lines = []
        else:
            lines.append(line)
    return found


def run(exercise: str, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute an answer and then the check cell as a grader would: a failed check raises."""
    monkeypatch.setenv("KVLAB_STRICT", "1")
    names: dict[str, object] = {"math": math, "np": np, "torch": torch, "check": check, "__name__": "__main__"}
    exec(compile(answer, f"<answer {exercise}>", "exec"), names)
    exec(compile(cells("check")[exercise], f"<check {exercise}>", "exec"), names)


def test_each_exercise_has_enough_known_answers() -> None:
    assert tuple(cells("exercise")) == tuple(cells("check")) == EXERCISES
    for exercise in EXERCISES:
        names = [p.name for p in ANSWERS if p.parent.name == exercise]
        assert sum(n.startswith("right_") for n in names) >= 3
        assert sum(n.startswith("wrong_") for n in names) >= 5


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_solution_passes(exercise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(exercise, cells("exercise")[exercise], monkeypatch)


@pytest.mark.parametrize(
    "path", [p for p in ANSWERS if p.name.startswith("right_")], ids=lambda p: f"{p.parent.name}-{p.stem}"
)
def test_right_answers_pass(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(path.parent.name, path.read_text(), monkeypatch)


@pytest.mark.parametrize(
    "path", [p for p in ANSWERS if p.name.startswith("wrong_")], ids=lambda p: f"{p.parent.name}-{p.stem}"
)
def test_wrong_answers_fail_with_a_diagnosis(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError) as caught:
        run(path.parent.name, path.read_text(), monkeypatch)
    assert len(str(caught.value)) > 40


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_unsolved_stub_fails(exercise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, inside = [], False
    for line in cells("exercise")[exercise].splitlines():
        if "### BEGIN SOLUTION" in line:
            inside = True
            kept.append(line.split("###")[0] + "raise NotImplementedError")
        elif "### END SOLUTION" in line:
            inside = False
        elif not inside:
            kept.append(line)
    with pytest.raises(AssertionError):
        run(exercise, "\n".join(kept), monkeypatch)
