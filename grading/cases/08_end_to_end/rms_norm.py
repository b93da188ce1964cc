"""Held-out cases of rms_norm. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Array = np.ndarray


def _mean_square(x: Array) -> Array:
    return np.mean(x**2, axis=-1, keepdims=True)


def _norm(
    centre: bool = False,
    square: Callable[[Array], Array] = _mean_square,
    size: Callable[[Array, float], Array] = lambda m, eps: np.sqrt(m + eps),
    scaled: Callable[[Array, Array, Array], Array] = lambda x, size, w: x / size * w,
    eps_used: Callable[[float], float] = lambda eps: eps,
    refuses: Callable[[tuple[int, ...], int], bool] = lambda shape, d: shape != (d,),
    weighted_first: bool = False,
    changes: bool = False,
) -> dict[str, Any]:
    """square: what is averaged, and over what; size: what a row is divided by; refuses: which shapes of weight."""

    def rms_norm(x: Any, weight: Any, eps: float = 1e-5) -> Array:
        if refuses(tuple(weight.shape), x.shape[-1]):
            raise ValueError
        rows, w = x.double().numpy(), weight.double().numpy()
        if w.shape != rows.shape[-1:] and w.shape != (1,):
            raise RuntimeError  # what torch makes of it
        if weighted_first:
            rows, w = rows * w, np.ones(1)
        if centre:
            rows = rows - rows.mean(axis=-1, keepdims=True)
        with np.errstate(all="ignore"):
            out = scaled(rows, size(square(rows), eps_used(eps)), w)
        if changes:
            x.zero_()
        return out

    return {"rms_norm": rms_norm}


def _balanced(rng: Generator, *shape: int) -> Array:
    """Entries of 1 and -1, as many of each in a row: mean 0, root mean square 1."""
    signs = np.resize([1.0, -1.0], shape)
    return rng.permuted(signs, axis=-1)


def _case(x: Array, weight: Array | None = None, *eps: float, watched: bool = False) -> Case:
    w = np.ones(x.shape[-1]) if weight is None else weight
    step = call("rms_norm", *(torch.from_numpy(a.astype(np.float32)) for a in (x, w)), *eps)
    return Case(step, unchanged(0)) if watched else Case(step)


def _offset(rng: Generator, d: int) -> Array:
    """Root mean square 1 and a mean of about 0.7."""
    x = rng.uniform(0.2, 1.0, d)
    return x / np.sqrt(np.mean(x**2))


def _several_axes(rng: Generator) -> list[Case]:
    """Rows of different size, so that a mean over more than the last axis shows."""
    cases = []
    for shape in ((2, 3, 4), (5, 6), (2, 2, 2, 8)):
        sizes = 2.0 ** rng.permuted(np.resize(np.arange(-2.0, 3.0), shape[:-1]))
        cases.append(_case(_balanced(rng, *shape) * sizes[..., None]))
    return cases


def _uneven(rng: Generator) -> list[Case]:
    cases = []
    for d in (4, 9, 32):
        x = rng.normal(size=d) * rng.uniform(0.5, 3)
        cases.append(_case(x - x.mean()))
    return cases


def _small(rng: Generator) -> list[Case]:
    return [*(_case(_balanced(rng, d) * size) for d, size in ((4, 2e-3), (8, 5e-3), (16, 1e-2))), _case(np.zeros(6))]


def _refused(rng: Generator) -> list[Case]:
    good = _case(_balanced(rng, 4)).steps
    sizes = ((1, 5), (4, 3), (4, 8), (1, 2), (4, 1))
    return [Case(*_case(_balanced(rng, 2, 4), np.ones(n)[:size]).steps, *good) for size, n in sizes]


EXERCISE = Exercise(
    "rms_norm",
    _norm(),
    groups=[
        Group(
            "rows of size 1",
            0.125,
            "a row whose root mean square is 1 stays as it is",
            lambda rng: [_case(_balanced(rng, *shape), watched=True) for shape in ((4,), (3, 8), (2, 2))],
        ),
        Group(
            "weights",
            0.125,
            "each entry is multiplied with its own weight, after the division",
            lambda rng: [_case(_balanced(rng, n, d), rng.normal(size=d)) for n, d in ((1, 4), (3, 8), (4, 4))],
        ),
        Group("uneven rows", 0.125, "the root of the mean of the squares, row by row", _uneven),
        Group(
            "rows with a mean",
            0.125,
            "no mean is taken away first",
            lambda rng: [_case(_offset(rng, d)) for d in (4, 8, 30)],
        ),
        Group("several axes", 0.125, "the mean runs over the last axis alone", _several_axes),
        Group("small rows", 0.125, "eps = 1e-5 is added under the root; zeros stay zeros", _small),
        Group(
            "another eps",
            0.125,
            "eps is an argument",
            lambda rng: [_case(_balanced(rng, 2, d), None, eps) for d, eps in ((4, 0.5), (8, 0.1), (6, 2.0))],
        ),
        Group("refused", 0.125, "a weight that is not (D,) raises ValueError", _refused),
    ],
    mistakes=[
        Mistake("centred", "the mean is not taken away: that would be LayerNorm", _norm(centre=True)),
        Mistake(
            "sum of the squares",
            "divide by the root of the mean of the squares, not of their sum",
            _norm(square=lambda x: np.sum(x**2, axis=-1, keepdims=True)),
        ),
        Mistake("no root", "divide by the root of the mean of the squares", _norm(size=lambda m, eps: m + eps)),
        Mistake(
            "mean of absolute values",
            "the mean is that of the squares, not of the absolute values",
            [
                _norm(square=lambda x: np.mean(abs(x), axis=-1, keepdims=True), size=lambda m, eps: m + eps),
                _norm(square=lambda x: np.mean(abs(x), axis=-1, keepdims=True) ** 2),
            ],
        ),
        Mistake(
            "largest entry",
            "divide by the root mean square, not by the largest entry",
            _norm(square=lambda x: abs(x).max(axis=-1, keepdims=True) ** 2),
        ),
        Mistake(
            "one mean for all rows",
            "each row has its own mean: over the last axis, not over everything",
            _norm(square=lambda x: np.mean(x**2)),
        ),
        Mistake(
            "mean over the first axis",
            "the mean runs over the last axis",
            _norm(square=lambda x: np.mean(x**2, axis=0, keepdims=x.ndim > 1)),
        ),
        Mistake("eps outside the root", "eps is added under the root", _norm(size=lambda m, eps: np.sqrt(m) + eps)),
        Mistake(
            "eps as a floor",
            "eps is added, it is no lower limit",
            [
                _norm(size=lambda m, eps: np.sqrt(np.maximum(m, eps))),
                _norm(size=lambda m, eps: np.maximum(np.sqrt(m), eps)),
            ],
        ),
        Mistake("no eps", "eps is added under the root: without it zeros give nan", _norm(eps_used=lambda eps: 0.0)),
        Mistake("eps fixed", "use the eps that is given", _norm(eps_used=lambda eps: 1e-5)),
        Mistake(
            "another default",
            "without an argument eps is 1e-5",
            [
                _norm(eps_used=lambda eps, other=other: other if eps == 1e-5 else eps)
                for other in (1e-6, 1e-8, 1e-12, 1e-3)
            ],
        ),
        Mistake(
            "weights forgotten", "each entry is multiplied with its weight", _norm(scaled=lambda x, size, w: x / size)
        ),
        Mistake(
            "weights in the mean",
            "the weights come after the division: the mean is that of x",
            _norm(weighted_first=True),
        ),
        Mistake(
            "1 added to the weights",
            "multiply with the weight as it is",
            _norm(scaled=lambda x, size, w: x / size * (1 + w)),
        ),
        Mistake("divided by the weights", "multiply with the weights", _norm(scaled=lambda x, size, w: x / size / w)),
        Mistake("inputs changed", "x was changed in place", _norm(changes=True)),
        Mistake(
            "weight unchecked",
            "a weight that is not (D,) raises ValueError, one weight for all too",
            [_norm(refuses=lambda shape, d: False), _norm(refuses=lambda shape, d: shape not in ((d,), (1,)))],
        ),
    ],
)
