"""Held-out cases of apply_rope. The oracle turns complex numbers, apart from the unit's solution and from kvlab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Array = np.ndarray


def _halves(d: int) -> Array:
    """The order of entries in which pairs stand side by side."""
    return np.arange(d).reshape(2, d // 2).T.reshape(-1)


def _neighbours(d: int) -> Array:
    return np.arange(d)


def _rope(
    order: Callable[[int], Array] = _halves,
    back: Callable[[int], Array] | None = None,
    power: Callable[[Array, int], Array] = lambda i, d: 2 * i / d,
    angle: Callable[[Array, float], Array] = lambda positions, theta: positions,
    turned: Callable[[Array, Array], Array] = lambda z, angles: z * np.exp(1j * angles),
    theta_used: Callable[[float], float] = lambda theta: theta,
    odd: type[Exception] | None = ValueError,
    fits: Callable[[int, int], bool] = lambda rows, given: rows == given,
    changes: bool = False,
) -> dict[str, Any]:
    """order: which entries are pairs; power: theta is taken to minus this; angle: of pair 0; fits: rows and positions.

    back: where the pairs go, when not where they came from; odd: the error for an odd d, None cuts the last entry off.
    """

    def apply_rope(x: Any, positions: Any, theta: float = 10000.0) -> Array:
        rows, at = x.double().numpy(), positions.double().numpy()
        n, d = rows.shape[-2:]
        if d % 2 and odd:
            raise odd
        if not fits(n, len(at)):
            raise ValueError
        if len(at) not in (1, n):
            raise RuntimeError
        d -= d % 2
        frequencies = theta_used(theta) ** -power(np.arange(d // 2), d)
        sides = rows[..., order(d)]
        pairs = turned(sides[..., ::2] + 1j * sides[..., 1::2], angle(at, theta)[:, None] * frequencies)
        out = np.zeros(rows[..., :d].shape)
        places = (back or order)(d)
        out[..., places[::2]], out[..., places[1::2]] = pairs.real, pairs.imag
        if changes:
            x.zero_()
        return out

    return {"apply_rope": apply_rope}


def _case(rng: Generator, shape: tuple[int, ...], positions: Any, *theta: float) -> Case:
    x = torch.from_numpy(rng.normal(size=shape).astype(np.float32))
    return Case(call("apply_rope", x, torch.tensor(np.asarray(positions), dtype=torch.long), *theta))


def _zero(rng: Generator) -> list[Case]:
    return [_case(rng, shape, [0] * shape[-2]) for shape in ((1, 2), (3, 8), (2, 1, 6))]


def _one_pair(rng: Generator) -> list[Case]:
    return [Case(*_case(rng, (n, 2), np.arange(n)).steps, unchanged(0)) for n in (2, 7, 20)]


def _later(rng: Generator) -> list[Case]:
    return [_case(rng, (n, 2), int(rng.integers(20, 400)) + np.arange(n)) for n in (1, 4, 9)]


def _any_order(rng: Generator) -> list[Case]:
    return [_case(rng, (n, 2), rng.permutation(500)[:n]) for n in (3, 8, 15)]


def _pairs(rng: Generator) -> list[Case]:
    return [_case(rng, (n, d), np.arange(n)) for n, d in ((3, 4), (9, 8), (40, 16))]


def _axes(rng: Generator) -> list[Case]:
    return [_case(rng, (*lead, n, 6), np.arange(n)) for lead, n in (((2,), 5), ((2, 3), 4), ((1, 4), 2))]


def _other_theta(rng: Generator) -> list[Case]:
    return [_case(rng, (n, d), np.arange(n), theta) for n, d, theta in ((5, 4, 100.0), (12, 8, 500000.0), (6, 6, 10.0))]


def _refused(rng: Generator) -> list[Case]:
    good = _case(rng, (2, 2), [0, 1]).steps
    bad = [((2, 5), [0, 1]), ((1, 9), [0]), ((3, 7), [2, 3, 4])]
    bad += [((3, 4), [1, 2]), ((4, 2), [5]), ((2, 4), [0, 1, 2]), ((1, 2), [3, 4])]
    return [Case(*_case(rng, *one).steps, *good) for one in bad]


EXERCISE = Exercise(
    "apply_rope",
    _rope(),
    groups=[
        Group("position 0", 0.25, "position 0 leaves a row as it is", _zero),
        Group(
            "one pair", 0.25, "(a, b) becomes (a cos - b sin, b cos + a sin); the inputs stay as they are", _one_pair
        ),
        Group("later positions", 0.25, "the angle comes from positions, which need not begin at 0", _later),
        Group("positions in any order", 0.25, "row r is at positions[r]", _any_order),
        Group("several pairs", 0.25, "entry i and entry i + d/2, turned by p * theta**(-2 i / d)", _pairs),
        Group("several axes", 0.25, "positions go along the last but one axis", _axes),
        Group("another theta", 0.25, "theta is an argument", _other_theta),
        Group("refused", 0.25, "an odd d, and positions that are not (n,), raise ValueError", _refused),
    ],
    mistakes=[
        Mistake(
            "neighbours paired",
            "half-split: entry i and entry i + d/2 are a pair, not neighbours",
            [_rope(_neighbours), _rope(_neighbours, _halves), _rope(_halves, _neighbours)],
        ),
        Mistake(
            "turned backwards",
            "the turn goes the other way: (a cos - b sin, b cos + a sin)",
            _rope(turned=lambda z, angles: z * np.exp(-1j * angles)),
        ),
        Mistake(
            "minus forgotten",
            "the first entry of a pair has a minus: a cos - b sin",
            _rope(turned=lambda z, angles: z * np.cos(angles) + 1j * z.conj() * np.sin(angles)),
        ),
        Mistake(
            "sine and cosine swapped",
            "(a cos - b sin, b cos + a sin): position 0 changes nothing",
            _rope(turned=lambda z, angles: z * np.sin(angles) + 1j * z * np.cos(angles)),
        ),
        Mistake(
            "the other entry lost",
            "each entry of a pair needs both: a cos - b sin",
            _rope(turned=lambda z, angles: z * np.cos(angles)),
        ),
        Mistake(
            "exponent too small",
            "the exponent is 2 i / d, so that it runs from 0 to nearly 1",
            _rope(power=lambda i, d: i / d),
        ),
        Mistake(
            "exponent too large",
            "i counts pairs, from 0 to d/2 - 1: the exponent is 2 i / d",
            _rope(power=lambda i, d: 4 * i / d),
        ),
        Mistake(
            "exponent reaches 1",
            "the exponent of the last pair is (d - 2) / d, not 1",
            _rope(power=lambda i, d: i / max(1, d // 2 - 1)),
        ),
        Mistake("pairs counted from 1", "the first pair has exponent 0", _rope(power=lambda i, d: 2 * (i + 1) / d)),
        Mistake(
            "one frequency for all",
            "each pair has its own frequency, theta**(-2 i / d)",
            _rope(power=lambda i, d: 0.0 * i),
        ),
        Mistake(
            "frequencies in reverse",
            "pair 0 turns fastest",
            _rope(power=lambda i, d: 2 * i[::-1] / d),
        ),
        Mistake(
            "positions ignored",
            "the angle comes from positions, not from the number of the row",
            _rope(angle=lambda positions, theta: np.arange(len(positions))),
        ),
        Mistake(
            "counted from the first",
            "positions are used as they are: the first need not be 0",
            _rope(angle=lambda positions, theta: positions - positions[0]),
        ),
        Mistake("positions from 1", "position 0 has angle 0", _rope(angle=lambda positions, theta: positions + 1)),
        Mistake("theta fixed", "use the theta that is given", _rope(theta_used=lambda theta: 10000.0)),
        Mistake("inputs changed", "x was changed in place", _rope(changes=True)),
        Mistake(
            "odd width unchecked",
            "an odd d raises ValueError",
            [_rope(odd=odd) for odd in (None, RuntimeError, IndexError, AssertionError)],
        ),
        Mistake(
            "positions unchecked",
            "there is one position for each row, else ValueError",
            [_rope(fits=lambda rows, given: True), _rope(fits=lambda rows, given: given in (1, rows))],
        ),
    ],
)
