"""Held-out cases of sliding_window_mask. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call


def _mask(
    sees: Callable[[int, int, int], bool] = lambda i, j, w: i - w < j <= i,
    position: Callable[[int, int, int], int] = lambda row, n_q, n_k: n_k - n_q + row,
    many: bool = True,
    least: int = 1,
) -> dict[str, Any]:
    """The mask entry by entry. `sees`: whether position i sees position j; `many`, `least`: what is refused."""

    def sliding_window_mask(n_q: int, n_k: int, window: int) -> np.ndarray:
        if (many and n_q > n_k) or window < least:
            raise ValueError
        rows = [[sees(position(row, n_q, n_k), j, window) for j in range(n_k)] for row in range(n_q)]
        return np.array(rows, dtype=bool).reshape(n_q, n_k)

    return {"sliding_window_mask": sliding_window_mask}


def _cases(*sizes: tuple[int, int, int]) -> list[Case]:
    return [Case(call("sliding_window_mask", *(int(x) for x in size))) for size in sizes]


def _square(rng: Generator, wide: bool) -> list[Case]:
    return _cases(*((n, n, n + rng.integers(0, 9) if wide else rng.integers(2, n - 2)) for n in rng.integers(6, 40, 3)))


def _chunk(rng: Generator, wide: bool) -> list[Case]:
    sizes = []
    for n_q, more in zip(rng.integers(2, 9, 3), rng.integers(3, 40, 3), strict=True):
        n_k = n_q + more
        sizes.append((n_q, n_k, n_k + rng.integers(1, 9) if wide else rng.integers(2, more + 1)))
    return _cases(*sizes)


def _decode(rng: Generator) -> list[Case]:
    return _cases(*((1, n, window) for n in rng.integers(8, 60, 2) for window in (2, n - 3, n + 2)))


def _refused(rng: Generator, windows: bool) -> list[Case]:
    good = call("sliding_window_mask", 1, 1, 1)
    sizes = [(3, 3, 0), (2, 5, -1), (1, 4, -int(rng.integers(2, 9)))]
    if not windows:
        sizes = [(n + more, n, 20) for n, more in ((3, 1), (1, 1), (int(rng.integers(4, 9)), 4))]
    return [Case(call("sliding_window_mask", *size), good) for size in sizes]


EXERCISE = Exercise(
    "sliding_window_mask",
    _mask(),
    groups=[
        Group(
            "wide windows", 0.25, "a window as long as the text leaves the causal mask", lambda rng: _square(rng, True)
        ),
        Group(
            "narrow windows",
            0.25,
            "a position sees itself and the window - 1 before it",
            lambda rng: _square(rng, False),
        ),
        Group(
            "a window of one",
            0.25,
            "with a window of 1 a position sees itself only",
            lambda rng: _cases(*((n, n, 1) for n in rng.integers(2, 20, 3))),
        ),
        Group("chunks, wide windows", 0.25, "row i is position n_k - n_q + i", lambda rng: _chunk(rng, True)),
        Group(
            "chunks, narrow windows",
            0.25,
            "both edges of the band are shifted by n_k - n_q",
            lambda rng: _chunk(rng, False),
        ),
        Group("decode", 0.25, "the newest position sees the last `window` keys", _decode),
        Group("more queries than keys", 0.25, "n_q > n_k raises ValueError", lambda rng: _refused(rng, False)),
        Group("no window", 0.25, "a window below 1 raises ValueError", lambda rng: _refused(rng, True)),
    ],
    mistakes=[
        Mistake(
            "one position more",
            "the window counts the position itself: window - 1 before it, not window",
            _mask(lambda i, j, w: i - w <= j <= i),
        ),
        Mistake(
            "one position less",
            "the window counts the position itself and window - 1 before it",
            [_mask(lambda i, j, w: j == i or i - w + 1 < j <= i), _mask(lambda i, j, w: i - w + 1 < j <= i)],
        ),
        Mistake(
            "hides itself",
            "a position has to see itself",
            [_mask(lambda i, j, w: i - w <= j < i), _mask(lambda i, j, w: i - w < j < i)],
        ),
        Mistake(
            "no lower edge", "the window is not used: old positions have to be hidden", _mask(lambda i, j, w: j <= i)
        ),
        Mistake("sees later positions", "no position may see a later one", _mask(lambda i, j, w: j > i - w)),
        Mistake("band on both sides", "the window looks back only, not ahead", _mask(lambda i, j, w: abs(i - j) < w)),
        Mistake(
            "top left", "row i is position n_k - n_q + i, not position i", _mask(position=lambda row, n_q, n_k: row)
        ),
        Mistake(
            "lower edge not shifted",
            "both edges of the band are shifted by n_k - n_q, the lower one too",
            {"sliding_window_mask": lambda n_q, n_k, window: _half_shifted(n_q, n_k, window)},
        ),
        Mistake(
            "one window for all rows",
            "each row has a window of its own: it moves on with the position",
            {"sliding_window_mask": lambda n_q, n_k, window: _one_window(n_q, n_k, window)},
        ),
        Mistake(
            "blocks of a window",
            "the window slides: it is no fixed block of positions",
            _mask(lambda i, j, w: j <= i and j // w == i // w),
        ),
        Mistake(
            "the first positions",
            "the window holds the newest positions, not the first ones",
            _mask(lambda i, j, w: j <= i and j < w),
        ),
        Mistake("True and False swapped", "True means: may attend", _mask(lambda i, j, w: not i - w < j <= i)),
        Mistake("too many queries pass", "more queries than keys have to raise ValueError", _mask(many=False)),
        Mistake(
            "windows below 1 pass", "a window below 1 has to raise ValueError", [_mask(least=-1000), _mask(least=0)]
        ),
    ],
)


def _checked(n_q: int, n_k: int, window: int) -> None:
    if n_q > n_k or window < 1:
        raise ValueError


def _half_shifted(n_q: int, n_k: int, window: int) -> np.ndarray:
    _checked(n_q, n_k, window)
    return np.array([[row - window < j <= n_k - n_q + row for j in range(n_k)] for row in range(n_q)])


def _one_window(n_q: int, n_k: int, window: int) -> np.ndarray:
    """The last `window` keys, for every query."""
    _checked(n_q, n_k, window)
    return np.array([[n_k - window <= j <= n_k - n_q + row for j in range(n_k)] for row in range(n_q)])
