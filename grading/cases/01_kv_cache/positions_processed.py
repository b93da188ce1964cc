"""Held-out cases of positions_processed. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call


def _positions(
    naive: Callable[[int, int], int] = lambda p, n: sum(range(p, p + n)),
    cached: Callable[[int, int], int] = lambda p, n: p + n - 1,
    nothing: Callable[[int], int] = lambda p: 0,
    refuses: Callable[[int, int, bool], bool] = lambda p, n, c: p < 1 or n < 0,
    below_zero_is_zero: bool = True,
) -> dict[str, Any]:
    def positions_processed(prompt_len: int, n_new: int, cached: bool) -> int:
        if refuses(prompt_len, n_new, cached):
            raise ValueError
        if n_new == 0 or (n_new < 0 and below_zero_is_zero):
            return nothing(prompt_len) if cached else 0
        return counts[cached](prompt_len, n_new)

    counts = {False: naive, True: cached}
    return {"positions_processed": positions_processed}


def _unguarded(refuses: Callable[[int, int, bool], bool]) -> list[dict[str, Any]]:
    """Two ways to go on with a negative n_new: as if it were 0, or by the formula."""
    return [_positions(refuses=refuses, below_zero_is_zero=zero) for zero in (True, False)]


def _positions_case(*calls: tuple[int, int, bool]) -> Case:
    return Case(*(call("positions_processed", p, n, c) for p, n, c in calls))


def _pairs(rng: Generator, count: int) -> list[tuple[int, int]]:
    """(prompt_len, n_new) of at least 3 each, so that no two mistakes give the same number."""
    return [(int(p), int(n)) for p, n in zip(rng.integers(3, 200, count), rng.integers(3, 200, count), strict=True)]


EXERCISE = Exercise(
    "positions_processed",
    _positions(),
    groups=[
        Group(
            "naive, a prompt of one token",
            0.25,
            "without a cache call number i gets the prompt and the i tokens made so far, from i = 0 on",
            lambda rng: [_positions_case((1, int(n), False)) for n in rng.integers(3, 300, 4)],
        ),
        Group(
            "naive, longer prompts",
            0.5,
            "without a cache every call gets the whole sequence so far",
            lambda rng: [_positions_case((p, n, False)) for p, n in _pairs(rng, 6)],
        ),
        Group(
            "cached",
            0.5,
            "with a cache the prompt is computed once, then one position per token",
            lambda rng: [_positions_case((p, n, True)) for p, n in _pairs(rng, 6)],
        ),
        Group(
            "one new token",
            0.25,
            "the first new token comes out of prefill: both loops push exactly the prompt",
            lambda rng: [_positions_case((int(p), 1, c)) for p in rng.integers(3, 300, 2) for c in (False, True)],
        ),
        Group(
            "nothing to produce",
            0.25,
            "for no new token nothing is computed",
            lambda rng: [_positions_case((int(p), 0, c)) for p in rng.integers(3, 300, 2) for c in (False, True)],
        ),
        Group(
            "bad arguments",
            0.25,
            "a prompt of less than one token and a negative number of tokens raise ValueError",
            lambda rng: (
                [
                    _positions_case((bad, int(rng.integers(1, 9)), c), (1, 0, False))
                    for bad in (0, -int(rng.integers(1, 9)))
                    for c in (False, True)
                ]
                + [
                    _positions_case((int(rng.integers(3, 90)), -int(rng.integers(1, 9)), c), (1, 0, False))
                    for c in (False, True)
                ]
            ),
        ),
    ],
    mistakes=[
        Mistake(
            "final length each step",
            "every naive call is counted at the final length; they grow by one from the prompt on",
            _positions(naive=lambda p, n: n * (p + n - 1)),
        ),
        Mistake(
            "naive one token ahead",
            "the first naive call gets the prompt alone: the token it makes does not exist yet",
            _positions(naive=lambda p, n: sum(range(p + 1, p + n + 1))),
        ),
        Mistake(
            "last token fed back",
            "the last token made is never fed back: the cached loop needs one step less",
            _positions(cached=lambda p, n: p + n),
        ),
        Mistake("prefill forgotten", "the prompt has to be computed once too", _positions(cached=lambda p, n: n)),
        Mistake(
            "prefill not the first token",
            "the first new token comes out of prefill: after it there are n_new - 1 steps",
            _positions(cached=lambda p, n: p + max(n, 2) - 1),
        ),
        Mistake(
            "product in place of a sum",
            "with a cache each step costs one position, not the whole prompt again",
            _positions(cached=lambda p, n: p * n),
        ),
        Mistake(
            "the longer of the two",
            "prompt and steps add up: prefill and decode both push positions",
            _positions(cached=lambda p, n: max(p, n)),
        ),
        Mistake(
            "nothing still costs",
            "when nothing is to be produced, not even the prompt is computed",
            _positions(nothing=lambda p: p),
        ),
        Mistake("no errors", "bad arguments have to raise ValueError", _unguarded(lambda p, n, c: False)),
        Mistake(
            "negative tokens pass",
            "a negative n_new has to raise ValueError",
            _unguarded(lambda p, n, c: p < 1),
        ),
        Mistake(
            "empty prompts pass",
            "a prompt_len below 1 has to raise ValueError",
            _unguarded(lambda p, n, c: n < 0),
        ),
        Mistake(
            "checked in the cached branch only",
            "bad arguments raise ValueError with and without a cache",
            _unguarded(lambda p, n, c: c and (p < 1 or n < 0)),
        ),
        Mistake(
            "checked in the naive branch only",
            "bad arguments raise ValueError with and without a cache",
            _unguarded(lambda p, n, c: not c and (p < 1 or n < 0)),
        ),
    ],
)
