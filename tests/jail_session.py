"""What the tests of the grader's session share: one running session, and exercises made on the spot."""

from typing import Any

import pytest

from helpers import require
from kvgrade import verdict
from kvgrade.cases import Case, Exercise, Group, call, draw
from kvgrade.inside.confine import Limits
from kvgrade.session import Session


@pytest.fixture(scope="module")
def running():
    require("bubblewrap")
    with Session(limits=Limits(files=200), with_torch=False) as session:
        yield session


def one(name: str, oracle: Any, *cases: Case, **options: Any) -> Exercise:
    """An exercise with one group per case, one point each."""
    groups = [Group(f"case {i}", 1, f"why {i}", lambda _, case=case: [case]) for i, case in enumerate(cases)]
    return Exercise(name, {name: oracle}, groups, **options)


def grade(session: Session, exercise: Exercise, source: str) -> verdict.ExerciseVerdict:
    drawn = draw(exercise, 1)
    return verdict.judge(exercise, drawn, session.run(exercise, source, drawn).groups, source=source)


def right(session: Session, exercise: Exercise, source: str) -> list[bool]:
    return [group.right for group in grade(session, exercise, source).groups]


def half(x):
    return x / 2


HALF = one("half", half, Case(call("half", 4.0)))
