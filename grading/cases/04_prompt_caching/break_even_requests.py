"""Held-out cases of break_even_requests. The oracle is written apart from the unit's solution and from kvlab.

Multipliers are decimals with few digits and keep away from ties, so that no rounding can decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call

Number = Callable[[float, float], float]


def _by_counting(write: float, read: float) -> int:
    """Request by request, in exact fractions. For multipliers that pay."""
    each, paid, n = Fraction(str(read)), Fraction(str(write)), 1
    while paid >= n:
        paid += each
        n += 1
    return n


def _never(w: float, r: float) -> bool:
    return w >= 1 and r >= 1


def _refuse(w: float, r: float) -> float:
    raise ValueError


def _break_even(
    count: Number = _by_counting,
    cheap_write: Number = lambda w, r: 1,
    never: Number = _refuse,
) -> dict[str, Any]:
    """The smallest number; what a write below 1 and multipliers that never pay give instead."""

    def break_even_requests(write_multiplier: float, read_multiplier: float) -> float:
        if _never(write_multiplier, read_multiplier):
            return never(write_multiplier, read_multiplier)
        if write_multiplier < 1:
            return cheap_write(write_multiplier, read_multiplier)
        return count(write_multiplier, read_multiplier)

    return {"break_even_requests": break_even_requests}


def _formula(w: float, r: float) -> int:
    return math.floor((w - r) / (1 - r)) + 1


def _reads_on_all(w: float, r: float) -> int:
    return math.floor(w / (1 - r)) + 1


def _gives_up(limit: int) -> Number:
    """A loop that ends too early."""

    def count(w: float, r: float) -> int:
        n = _by_counting(w, r)
        if n > limit:
            raise ValueError
        return n

    return count


def _draw(
    rng: Generator, write: tuple[float, float], read: tuple[float, float], digits: int = 2
) -> tuple[float, float]:
    """Two decimals from these ranges for which no number of requests is near a tie, whichever way it is counted."""
    while True:
        w, r = (round(float(rng.uniform(*ends)), digits) for ends in (write, read))
        if r >= 1 or (all(0.05 < x % 1 < 0.95 for x in ((w - r) / (1 - r), w / (1 - r)) if x > 1) and r != w):
            return w, r


def _case(w: float, r: float) -> Case:
    return Case(call("break_even_requests", w, r))


def _cases(rng: Generator, *ranges: tuple[tuple[float, float], tuple[float, float]], digits: int = 2) -> list[Case]:
    return [_case(*_draw(rng, write, read, digits)) for write, read in ranges]


def _usual(rng: Generator) -> list[Case]:
    """As providers have it."""
    return _cases(rng, *[((1.05, 1.6), (0.05, 0.15))] * 4)


def _dear_writes(rng: Generator) -> list[Case]:
    return _cases(rng, ((1.92, 2.5), (0.1, 0.2)), ((3.1, 3.9), (0.15, 0.3)), ((5.1, 7.9), (0.2, 0.3)))


def _small_gains(rng: Generator) -> list[Case]:
    """From a few requests to thousands."""
    middle = _cases(rng, ((1.3, 1.9), (0.75, 0.85)), ((1.3, 1.9), (0.92, 0.95)))
    return [*middle, *_cases(rng, ((1.4, 1.9), (0.9991, 0.9996)), digits=4)]


def _free_reads(rng: Generator) -> list[Case]:
    return [_case(round(int(whole) + float(rng.uniform(0.1, 0.9)), 2), 0.0) for whole in (1, 2, *rng.integers(3, 9, 2))]


def _cheap_writes(rng: Generator) -> list[Case]:
    return _cases(rng, ((0.6, 0.95), (0.05, 0.3)), ((0.2, 0.6), (0.7, 0.95)), ((0.85, 0.98), (0.4, 0.6)))


def _dear_reads(rng: Generator) -> list[Case]:
    return [
        *_cases(rng, ((0.1, 0.9), (1.1, 2.5)), ((0.5, 0.95), (1.1, 1.4))),
        _case(_draw(rng, (0.1, 0.9), (0, 0.5))[0], 1.0),
    ]


def _never_pays(rng: Generator) -> list[Case]:
    good = _case(*_draw(rng, (1.05, 1.6), (0.05, 0.15))).steps
    w, dear = _draw(rng, (1.1, 2.4), (1.05, 1.9))
    bad = [_case(w, dear), _case(w, 1.0), _case(w, round(w + dear, 2))]
    return [Case(*case.steps, *good) for case in bad]


EXERCISE = Exercise(
    "break_even_requests",
    _break_even(),
    groups=[
        Group("as providers have it", 0.5, "the first n with write + (n - 1) * read < n", _usual),
        Group("dear writes", 0.25, "the first n with write + (n - 1) * read < n", _dear_writes),
        Group("small gains", 0.25, "the first n with write + (n - 1) * read < n, however large it is", _small_gains),
        Group("free reads", 0.25, "with a read of 0 the first n above the write", _free_reads),
        Group("cheap writes", 0.25, "a write below 1 pays from the first request on", _cheap_writes),
        Group("cheap writes, dear reads", 0.25, "a write below 1 gives 1, whatever a read costs", _dear_reads),
        Group("never pays", 0.25, "a read of 1 or more wins nothing back: ValueError", _never_pays),
    ],
    mistakes=[
        Mistake(
            "one request too few",
            "the request that writes counts too, and at the number before caching is not cheaper yet",
            [
                _break_even(lambda w, r: _by_counting(w, r) - 1),
                _break_even(lambda w, r: max(1, _by_counting(w, r) - 1)),
                _break_even(lambda w, r: _by_counting(w, r) - 1, lambda w, r: 0),
            ],
        ),
        Mistake(
            "one request too many",
            "the first number at which caching costs less, not the one after it",
            [
                _break_even(lambda w, r: _by_counting(w, r) + 1),
                _break_even(lambda w, r: _by_counting(w, r) + 1, lambda w, r: 2),
            ],
        ),
        Mistake(
            "rounded",
            "no request can be made in part: take the next whole number above",
            [
                _break_even(lambda w, r: round((w - r) / (1 - r))),
                _break_even(lambda w, r: max(1, round((w - r) / (1 - r)))),
            ],
        ),
        Mistake(
            "the first request reads too",
            "the first request writes and does not read: n requests make n - 1 reads",
            [_break_even(_reads_on_all), _break_even(_reads_on_all, _reads_on_all)],
        ),
        Mistake(
            "later reads for nothing",
            "each request after the first pays a read",
            [_break_even(lambda w, r: math.floor(w) + 1), _break_even(lambda w, r: math.floor(w + r) + 1)],
        ),
        Mistake(
            "one read for each write too many",
            "only the first request writes; the later ones read",
            _break_even(lambda w, r: math.floor(max(w, 1) * (1 + r)) + 1),
        ),
        Mistake(
            "fixed number",
            "the number depends on both multipliers",
            [_break_even(lambda w, r: 2), _break_even(lambda w, r: 2, lambda w, r: 2)],
        ),
        Mistake(
            "gives up",
            "small gains add up: go on until caching is cheaper, or compute the number",
            [_break_even(_gives_up(limit)) for limit in (10, 20, 50, 100, 500, 1000)]
            + [_break_even(lambda w, r, m=limit: min(_by_counting(w, r), m)) for limit in (10, 20, 50, 100, 500, 1000)],
        ),
        Mistake(
            "never below 2",
            "a write below 1 costs less at once: 1",
            _break_even(cheap_write=lambda w, r: 2),
        ),
        Mistake(
            "below 1",
            "the smallest number is 1: a formula can give less when a write costs less than a read",
            [
                _break_even(cheap_write=lambda w, r: _formula(w, r) if r < 1 else 1),
                _break_even(cheap_write=lambda w, r: 0),
                _break_even(cheap_write=lambda w, r: max(0, _formula(w, r)) if r < 1 else 1),
            ],
        ),
        Mistake(
            "dear reads refused",
            "a write below 1 pays from the first request on, whatever a read costs",
            [
                _break_even(cheap_write=lambda w, r: 1 if r < 1 else _refuse(w, r)),
                _break_even(cheap_write=lambda w, r: 1 if r < 1 else _formula(w, r)),
                _break_even(cheap_write=lambda w, r: max(1, _formula(w, r))),
            ],
        ),
        Mistake(
            "a number for never",
            "when caching never pays, raise ValueError; no number says that",
            [
                *(_break_even(never=lambda w, r, n=number: n) for number in (math.inf, 0, -1, 1)),
                _break_even(never=lambda w, r: None),
                _break_even(never=_formula),
                _break_even(never=lambda w, r: max(1, _formula(w, r))),
                _break_even(never=lambda w, r: _refuse(w, r) if r > 1 else _formula(w, r)),
                _break_even(never=lambda w, r: math.inf if r == 1 else _formula(w, r)),
            ],
        ),
    ],
)
