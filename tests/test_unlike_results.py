"""Results of a shape or type that no exercise asks for: they are wrong, and never a fault of the grader."""

from typing import Any

import numpy as np
import pytest

from kvgrade import cases, verdict
from kvgrade.units import find_units

UNLIKE: list[Any] = [
    np.array(3),
    np.array(1.5),
    np.zeros(2),
    np.zeros((0, 3)),
    np.array(["a"]),
    [[1.0], [1.0, 2.0]],
    ["a", "b"],
    [{}],
    {"a": 1},
    [10**400],
    "text",
    True,
]
EXERCISES = [(path.stem, name) for path in find_units([])[1:] for name in cases.load(path.stem)]


def unlike(outcomes: list[cases.Outcome], value: Any) -> list[list[cases.Outcome]]:
    """The outcomes with `value` for each result, and for each half of a pair."""
    results = [number for number, outcome in enumerate(outcomes) if outcome.get("value") is not None]
    whole = [outcome | {"value": value} if i in results else outcome for i, outcome in enumerate(outcomes)]
    found = [whole]
    for half in (0, 1):
        pairs = [i for i in results if isinstance(outcomes[i]["value"], tuple) and len(outcomes[i]["value"]) == 2]
        changed = list(outcomes)
        for i in pairs:
            pair = list(outcomes[i]["value"])
            pair[half] = value
            changed[i] = outcomes[i] | {"value": tuple(pair)}
        if pairs:
            found.append(changed)
    return found if results else []


@pytest.mark.parametrize(("unit", "name"), EXERCISES)
def test_what_is_unlike_every_right_result_is_wrong(unit: str, name: str) -> None:
    exercise = cases.load(unit)[name]
    for group in cases.draw(exercise, 777).values():
        for case in group[:2]:
            right = cases.run_here(case, exercise.names)
            for value in UNLIKE:
                for outcomes in unlike(right, value):
                    verdict.agrees(exercise, case, outcomes, right)
                    for mistake in exercise.mistakes[:3]:
                        row = verdict._Row(case, outcomes, right, False)
                        verdict._explains(exercise, mistake.ways[0], row)
        assert verdict.agrees(exercise, case, right, right)
