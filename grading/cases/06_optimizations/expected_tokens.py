"""Held-out cases of expected_tokens. The oracle sums over the ways a round can end, apart from the unit's solution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call


def _raise(error: type[Exception]) -> float:
    raise error


def _ways(a: float, k: int) -> float:
    """1 token after a rejection at once, 2 after one accepted, ..., k + 1 after k accepted."""
    return math.fsum([*((i + 1) * a**i * (1 - a) for i in range(k)), (k + 1) * a**k])


def _expected(
    value: Callable[[float, int], float] = _ways,
    sure: Callable[[int], float] = lambda k: k + 1,
    never: float = 1.0,
    plain: float = 1.0,
    lowest: float = 0.0,
    highest: float = 1.0,
    least: int = 0,
    below: Callable[[float, int], float] = lambda a, k: _raise(ValueError),
) -> dict[str, Any]:
    """value: for an acceptance between 0 and 1 and k above 0; sure, never, plain: acceptance 1, acceptance 0, k = 0; below: k < 0."""

    def expected_tokens(acceptance: float, k: int) -> float:
        if not lowest <= acceptance <= highest or 0 <= k < least:
            raise ValueError
        if k < 0:
            return below(acceptance, k)
        if k == 0:
            return plain
        if acceptance == 1:
            return sure(k)
        return never if acceptance == 0 else value(acceptance, k)

    return {"expected_tokens": expected_tokens}


def _series(a: float, first: int, last: int) -> float:
    return sum(a**i for i in range(first, last + 1))


def _cases(*pairs: tuple[float, int]) -> list[Case]:
    return [Case(call("expected_tokens", a, k)) for a, k in pairs]


def _drawn(rng: Generator, low: float, high: float, lengths: tuple[int, ...]) -> list[Case]:
    return _cases(*((round(float(rng.uniform(low, high)), 3), k) for k in lengths))


def _bad(*pairs: tuple[float, int]) -> list[Case]:
    """Beside each bad call a good one that most mistakes get right."""
    return [Case(call("expected_tokens", a, k), call("expected_tokens", 0.0, 2)) for a, k in pairs]


def _outside(rng: Generator) -> list[Case]:
    low, high = (float(rng.uniform(0.1, 0.9)) for _ in range(2))
    return _bad((-low, 3), (1 + high, 3), (-0.01, 1), (1.01, 2), (-3, 2))


EXERCISE = Exercise(
    "expected_tokens",
    _expected(),
    groups=[
        Group(
            "one token drafted",
            0.25,
            "k = 1: two tokens when it is accepted, else one",
            lambda rng: _drawn(rng, 0.2, 0.8, (1, 1, 1)),
        ),
        Group(
            "short drafts",
            0.25,
            "the sum, for i from 0 to k, of acceptance to the power of i",
            lambda rng: _drawn(rng, 0.3, 0.8, (2, 3, 4)),
        ),
        Group(
            "long drafts",
            0.25,
            "a draft of k tokens gives k + 1 tokens at most",
            lambda rng: _drawn(rng, 0.85, 0.97, (6, 10, 16)),
        ),
        Group(
            "always accepted",
            0.25,
            "acceptance 1 gives k + 1",
            lambda rng: _cases((1, 1), (1.0, int(rng.integers(2, 9))), (1, 12)),
        ),
        Group(
            "never accepted",
            0.25,
            "acceptance 0 gives the corrected token alone: 1",
            lambda rng: _cases((0, 1), (0.0, int(rng.integers(2, 9)))),
        ),
        Group(
            "no draft",
            0.25,
            "k = 0 is a plain step: 1 token",
            lambda rng: _cases((0, 0), (1, 0), (round(float(rng.uniform(0.2, 0.9)), 3), 0)),
        ),
        Group("acceptance outside", 0.25, "an acceptance outside [0, 1] raises ValueError", _outside),
        Group(
            "drafts below 0",
            0.25,
            "k < 0 raises ValueError",
            lambda rng: _bad((0.5, -1), (0, -1), (1, -2), (0.9, -int(rng.integers(2, 9)))),
        ),
    ],
    mistakes=[
        Mistake(
            "bonus forgotten",
            "k accepted tokens are followed by a bonus token: the sum goes up to k",
            [_expected(lambda a, k: _series(a, 0, k - 1), lambda k: k, plain=plain) for plain in (0.0, 1.0)]
            + [_expected(lambda a, k: _series(a, 0, k - 1), plain=0.0)],
        ),
        Mistake(
            "draft tokens only",
            "each round gives one token more than were accepted",
            _expected(lambda a, k: _series(a, 1, k), lambda k: k, 0.0, 0.0),
        ),
        Mistake(
            "no end at a rejection",
            "the first rejection ends the draft: it is not k x acceptance",
            _expected(lambda a, k: 1 + a * k),
        ),
        Mistake(
            "endless draft",
            "1 / (1 - acceptance) is the limit for endless drafts; k tokens give less",
            [_expected(lambda a, k: 1 / (1 - a)), _expected(lambda a, k: 1 / (1 - a), plain=1.0)],
        ),
        Mistake(
            "endless draft, cut",
            "1 / (1 - acceptance) is the limit for endless drafts; cutting it at k + 1 is too much",
            _expected(lambda a, k: min(1 / (1 - a), k + 1)),
        ),
        Mistake(
            "one term too many",
            "the sum goes up to the power of k, not k + 1",
            _expected(lambda a, k: _series(a, 0, k + 1), lambda k: k + 2),
        ),
        Mistake(
            "all or nothing",
            "a draft may be accepted in part: the sum has a term for each length",
            _expected(lambda a, k: 1 + k * a**k),
        ),
        Mistake("last term only", "the sum has a term for each length", _expected(lambda a, k: 1 + a**k, lambda k: 2)),
        Mistake("rounded", "the result is not rounded", _expected(lambda a, k: round(_ways(a, k)))),
        Mistake(
            "acceptance 1",
            "acceptance 1 gives k + 1; the short formula divides by 0 there",
            [
                _expected(sure=sure)
                for sure in (
                    lambda k: math.nan,
                    lambda k: math.inf,
                    lambda k: 1,
                    lambda k: k,
                    lambda k: _raise(ZeroDivisionError),
                    lambda k: _raise(ValueError),
                )
            ],
        ),
        Mistake("no draft gives 0", "k = 0 is a plain step, which gives 1 token", _expected(plain=0.0)),
        Mistake("no draft refused", "k = 0 is allowed: a plain step", _expected(least=1)),
        Mistake("never gives 0", "acceptance 0 still gives the corrected token", _expected(never=0.0)),
        Mistake(
            "acceptance unchecked",
            "an acceptance outside [0, 1] raises ValueError, above and below",
            [_expected(highest=math.inf, lowest=-math.inf), _expected(highest=math.inf), _expected(lowest=-math.inf)],
        ),
        Mistake(
            "k unchecked",
            "k below 0 raises ValueError",
            [
                _expected(below=lambda a, k: 0.0),
                _expected(below=lambda a, k: 1.0),
                _expected(below=lambda a, k: k + 1 if a == 1 else (1 - a ** (k + 1)) / (1 - a)),
                _expected(below=lambda a, k: _series(a, 1, k) + a**k),
            ],
        ),
    ],
)
