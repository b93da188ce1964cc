"""The grader of every unit is proved by its known answers; and the proof can fail."""

import dataclasses
import os

import numpy as np
import pytest

from helpers import ROOT, require
from kvgrade import cases, prove
from kvgrade.units import find_units

FULL = os.environ.get("KVLAB_FULL") == "1"
UNITS = [path.stem for path in find_units() if (ROOT / "grading" / "cases" / path.stem).exists()]


@pytest.fixture(scope="module", params=UNITS)
def proof(request):
    require("bubblewrap")
    return prove.run(request.param), cases.load(request.param)


def test_everything_holds(proof):
    rows, exercises = proof
    assert prove.problems(rows, exercises) == [], prove.table(rows)


def test_the_proof_notices_what_is_wrong(proof):
    rows, exercises = proof
    row = next(row for row in rows if row.answer.startswith("wrong_"))
    right = next(row for row in rows if row.answer.startswith("right_"))

    def problems_with(old, **change):
        changed = [dataclasses.replace(r, **change) if r is old else r for r in rows]
        return " ".join(prove.problems(changed, exercises))

    assert "passes the check cell" in problems_with(row, panel="")
    assert "diagnosed as" in problems_with(row, expected="something else")
    assert "is right, but" in problems_with(right, panel="not right yet")
    assert "is right, but" in problems_with(right, verdict=row.verdict)
    assert "a case takes" in problems_with(right, slowest=1e6)
    full = dataclasses.replace(right.verdict, name=row.exercise)
    unnoticed = problems_with(row, verdict=full)
    assert f"{row.exercise}/{row.answer} gets full points: no case notices it" in unnoticed
    assert "diagnosed as" not in unnoticed, "its marks are not right"
    hard = next(r for r in rows if r.answer == "hard_coded" and r.exercise == right.exercise)
    assert "hard-coded to the check gets" in problems_with(hard, verdict=full)


def test_right_answers_are_right_for_other_seeds(proof):
    """Marks do not hang on the seed: the oracle and a known mistake part for every seed tried."""
    _, exercises = proof
    for exercise in exercises.values():
        for seed in range(20 if FULL else 4):
            drawn = cases.draw(exercise, seed)
            for mistake in exercise.mistakes:
                noticed = any(
                    not _agrees(exercise, case, mistake.ways[0]) for group in drawn.values() for case in group
                )
                assert noticed, f"{exercise.name}: no case of seed {seed} notices {mistake.name!r}"


def _agrees(exercise, case, names):
    from kvgrade import verdict

    with np.errstate(all="ignore"):
        return verdict.agrees(exercise, case, cases.run_here(case, names), cases.run_here(case, exercise.names))


def test_cases_are_drawn_alike_for_a_seed_and_differ_between_seeds():
    exercise = cases.load(UNITS[0])["cached_attention"]
    first, again, other = (cases.draw(exercise, seed) for seed in (1, 1, 2))

    def numbers(drawn):
        return np.concatenate([arg.ravel() for case in drawn["decode"] for arg in case.steps[0]["args"]])

    np.testing.assert_array_equal(numbers(first), numbers(again))
    assert not np.array_equal(numbers(first), numbers(other))


def test_cases_that_do_not_fit_the_unit_are_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "grading" / "cases").mkdir(parents=True)
    row = '{"unit": "%s", "points": 2, "closed": []}'

    def load(unit, exercise, groups):
        cases.load.cache_clear()
        folder = tmp_path / "grading" / "cases" / unit
        folder.mkdir()
        text = f"from kvgrade.cases import Exercise, Group\nEXERCISE = Exercise('{exercise}', {{}}, [{groups}])"
        (folder / "f.py").write_text(text)
        (tmp_path / "data" / "exercises.json").write_text('{"f": %s}' % (row % "01_tiny"))
        return cases.load(unit, tmp_path)

    group = "Group('a', %s, '', lambda rng: [])"
    with pytest.raises(ValueError, match="there are no cases"):
        cases.load("01_tiny", tmp_path)
    with pytest.raises(ValueError, match="the unit has"):
        load("02_tiny", "f", group % 2)
    with pytest.raises(ValueError, match="name the file after the exercise"):
        load("03_tiny", "g", group % 2)
    with pytest.raises(ValueError, match="its groups give 1 points, its check 2"):
        load("01_tiny", "f", group % 1)
    (tmp_path / "grading" / "cases" / "01_tiny" / "f.py").unlink()
    (tmp_path / "grading" / "cases" / "01_tiny").rmdir()
    with pytest.raises(ValueError, match="two groups have the same name"):
        load("01_tiny", "f", f"{group % 1}, {group % 1}")
    cases.load.cache_clear()
