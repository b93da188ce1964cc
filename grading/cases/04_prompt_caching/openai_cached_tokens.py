"""Held-out cases of openai_cached_tokens. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call

Tokens = Callable[[int, int, int], int]
Refuses = Callable[[int, int, int], bool]
NAME = "openai_cached_tokens"


def _climb(prefix: int, minimum: int, step: int) -> int:
    """Step by step, as long as there is room."""
    if prefix < minimum:
        return 0
    held = minimum
    while held + step <= prefix:
        held += step
    return held


def _cached(
    tokens: Tokens = _climb, refuses: Refuses = lambda n, m, s: n < 0 or m < 0 or s < 1, divides: bool = False
) -> dict[str, Any]:
    """The tokens; `divides`: whether a step of 0 divides by 0."""

    def openai_cached_tokens(shared_prefix: int, minimum: int = 1024, step: int = 128) -> int:
        if refuses(shared_prefix, minimum, step):
            raise ValueError
        if divides and not step and shared_prefix >= minimum:
            raise ZeroDivisionError
        return tokens(shared_prefix, minimum, step)

    return {NAME: openai_cached_tokens}


def _formula(n: int, m: int, s: int) -> int:
    """As `_climb`, for any step."""
    if n < m:
        return 0
    return m + (n - m) // s * s if s else m


def _unguarded(refuses: Refuses) -> list[dict[str, Any]]:
    """Ways to go on with a bad value."""
    return [
        _cached(_formula, refuses, divides=True),
        _cached(_formula, refuses),
        _cached(lambda n, m, s: 0 if n < m else n - n % s if not m % s else _formula(n, m, s), refuses, divides=True),
    ]


def _above(change: Callable[[int, int], int]) -> Tokens:
    """What lies above the minimum, changed."""
    return lambda n, m, s: 0 if n < m else m + change(n - m, s)


def _case(*args: int, **kwargs: int) -> Case:
    return Case(call(NAME, *(int(x) for x in args), **{key: int(x) for key, x in kwargs.items()}))


def _minimum(rng: Generator) -> int:
    """A minimum that is no multiple of 128, nor of a step below 128."""
    return 128 * int(rng.integers(2, 9)) + int(rng.integers(30, 60))


def _step(rng: Generator) -> int:
    """A step that does not divide 1024, with a rest that shows."""
    return int(rng.choice([300, 90, 200, 150, 77]))


def _below(rng: Generator) -> list[Case]:
    return [_case(n) for n in (0, 1023, *rng.integers(1, 1023, 2))]


def _just(rng: Generator) -> list[Case]:
    minimum = _minimum(rng)
    return [_case(1024), _case(minimum, minimum=minimum), _case(1024, step=_step(rng))]


def _whole(rng: Generator) -> list[Case]:
    return [_case(1024 + 128 * int(n)) for n in (1, *rng.integers(2, 200, 3))]


def _between(rng: Generator) -> list[Case]:
    return [
        _case(1024 + 128 * int(n) + rest)
        for n, rest in zip((0, *rng.integers(1, 200, 3)), (127, 1, 64, 90), strict=True)
    ]


def _other_minimum(rng: Generator) -> list[Case]:
    cases = []
    for n in (0, *rng.integers(1, 30, 2)):
        minimum = _minimum(rng)
        cases.append(_case(minimum + 128 * int(n) + int(rng.integers(70, 90)), minimum=minimum))
    return [*cases, _case(1000, minimum=1000 + int(rng.integers(1, 9)))]


def _other_step(rng: Generator) -> list[Case]:
    cases = []
    for n in rng.integers(1, 30, 3):
        step = _step(rng)
        cases.append(_case(1024 + step * int(n) + step * 2 // 3, step=step))
    return cases


def _bad(rng: Generator) -> list[Case]:
    good = _case(1024 + 128 * int(rng.integers(1, 9))).steps
    n = int(rng.integers(1100, 3000))
    some = int(rng.integers(2, 200))
    bad = [
        _case(-1),
        _case(-n),
        _case(n, step=0),
        _case(n, step=-some),
        _case(some, step=0),
        _case(n, minimum=-some),
    ]
    return [Case(*case.steps, *good) for case in bad]


EXERCISE = Exercise(
    NAME,
    _cached(),
    groups=[
        Group("below the minimum", 0.25, "below the minimum nothing is cached", _below),
        Group("just the minimum", 0.25, "the minimum itself is enough", _just),
        Group("whole steps", 0.25, "the minimum and all whole steps above it", _whole),
        Group("between two steps", 0.5, "rounded down to a whole step", _between),
        Group("another minimum", 0.25, "steps are counted from the minimum that is given", _other_minimum),
        Group("another step", 0.25, "steps of the size that is given, counted from the minimum", _other_step),
        Group("bad values", 0.25, "a negative number of tokens or a step below 1 raises ValueError", _bad),
    ],
    mistakes=[
        Mistake(
            "more than the minimum needed",
            "just the minimum is enough",
            _cached(lambda n, m, s: 0 if n == m else _climb(n, m, s)),
        ),
        Mistake(
            "counted from 0",
            "steps are counted from the minimum, not from 0",
            [
                _cached(lambda n, m, s: n // s * s if n >= m else 0),
                _cached(lambda n, m, s: n // s * s if n // s * s >= m else 0),
                _cached(lambda n, m, s: max(m, n // s * s) if n >= m else 0),
            ],
        ),
        Mistake(
            "no minimum",
            "below the minimum nothing is cached",
            [_cached(lambda n, m, s: n // s * s), _cached(lambda n, m, s: _climb(n, m % s, s))],
        ),
        Mistake("never 0", "below the minimum the result is 0", _cached(lambda n, m, s: max(m, _climb(n, m, s)))),
        Mistake(
            "steps alone",
            "the minimum is cached too, not only what is above it",
            _cached(lambda n, m, s: max(0, _climb(n, m, s) - m)),
        ),
        Mistake("minimum alone", "whole steps above the minimum are cached too", _cached(_above(lambda a, s: 0))),
        Mistake("not rounded", "above the minimum only whole steps count", _cached(_above(lambda a, s: a))),
        Mistake("rounded up", "round down: a step begun is not cached", _cached(_above(lambda a, s: -(-a // s) * s))),
        Mistake(
            "rounded to the nearest",
            "round down: a step begun is not cached, however far it goes",
            _cached(_above(lambda a, s: round(a / s) * s)),
        ),
        Mistake("number of steps", "a step is `step` tokens", _cached(_above(lambda a, s: a // s))),
        Mistake(
            "one token left",
            "the rule counts what agrees; nothing is taken off",
            [
                _cached(lambda n, m, s: _climb(n - 1, m, s)),
                _cached(lambda n, m, s: _climb(max(n - 1, 0), m, s)),
                _cached(_above(lambda a, s: max(0, (a - 1) // s * s))),
            ],
        ),
        Mistake("minimum ignored", "the minimum is an argument", _cached(lambda n, m, s: _climb(n, 1024, s))),
        Mistake("step ignored", "the step is an argument", _cached(lambda n, m, s: _climb(n, m, 128))),
        Mistake(
            "bad values pass",
            "a negative prefix, a negative minimum and a step below 1 have to raise ValueError, each of them",
            _unguarded(lambda n, m, s: False)
            + _unguarded(lambda n, m, s: m < 0 or s < 1)
            + _unguarded(lambda n, m, s: n < 0 or s < 1)
            + _unguarded(lambda n, m, s: n < 0 or m < 0)
            + _unguarded(lambda n, m, s: n < 0)
            + _unguarded(lambda n, m, s: s < 1)
            + _unguarded(lambda n, m, s: n < 0 or m < 0 or s < 0)
            + _unguarded(lambda n, m, s: n < 0 or m < 0 or s == 0)
            + _unguarded(lambda n, m, s: n < 0 or m < 0 or (n >= m and s < 1)),
        ),
    ],
)
