"""Held-out cases of quantize_rows and dequantize_rows. The oracle goes value by value, apart from solution and kvlab.

Codes near a half may be either neighbour, and a row of zeros may have any finite scale: `_same` compares so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.typed_results import by_step, same_kind
from kvgrade.cases import Case, Exercise, Group, Mistake, Step, call, unchanged
from kvgrade.verdict import same_value

NEAR = 1e-3  # of a code: how close to a half both neighbours are right


def _top(bits: int) -> int:
    return 2 ** (bits - 1) - 1


def _quantize(
    top: Callable[[int], int] = _top,
    largest: Callable[[np.ndarray], np.ndarray] = lambda w: np.abs(w).max(axis=1),
    rounded: Callable[[np.ndarray], np.ndarray] = np.rint,
    given: Callable[[np.ndarray], np.ndarray] = lambda scales: scales,
    clip: bool = True,
    dtype: str = "int8",
    zero: Callable[[], Any] = lambda: 1.0,
    bits_from: int = 2,
    bits_to: int = 8,
    axes: type[Exception] | None = ValueError,
    changes: bool = False,
    back: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda q, s: q * s[:, None],
    fits: bool = True,
) -> dict[str, Any]:
    """Both functions. largest: what becomes the largest code of a row; given: how the scales are handed out.

    zero: the scale of a row of zeros; axes: the error for w without rows; back, fits: of dequantize_rows.
    """

    def quantize_rows(w: Any, bits: int = 8) -> Any:
        if not bits_from <= bits <= bits_to:
            raise ValueError
        weights = w.double().numpy()
        if weights.ndim != 2:
            if axes:
                raise axes
            weights = weights[None]
        most = max(top(bits), 1)
        scales = np.array([x / most if x else zero() for x in largest(weights)])
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            codes = rounded(weights / scales[:, None])
            codes = np.where(weights == 0, 0.0, codes)
            codes = np.clip(codes, -most, most) if clip else codes
            codes = codes.astype(np.int64).astype(dtype) if dtype != "float32" else codes.astype(dtype)
        if changes:
            w.mul_(0)
        return codes, given(scales)

    def dequantize_rows(q: Any, scales: Any) -> Any:
        codes, factors = q.double().numpy(), scales.double().numpy()
        if factors.shape != codes.shape[:1] and fits:
            raise ValueError
        return back(codes, factors)

    return {"quantize_rows": quantize_rows, "dequantize_rows": dequantize_rows}


def _down_to_128(w: Any, bits: int = 8) -> Any:
    """All 2^bits codes: from -2^(bits - 1) to 2^(bits - 1) - 1."""
    half = 2 ** (bits - 1)
    codes, scales = _quantize(lambda b: half, clip=False, dtype="int64")["quantize_rows"](w, bits)
    return np.clip(codes, -half, half - 1).astype(np.int8), scales


def _along_columns(q: Any, scales: Any, checks: bool) -> np.ndarray:
    """What q * scales gives: the scales meet the last axis."""
    if checks and len(scales) != len(q):
        raise ValueError
    if len(scales) not in (1, q.shape[1]):
        raise RuntimeError
    return np.asarray(q.double() * scales.double())


def _as_it_comes(q: Any, scales: Any, error: type[Exception] = RuntimeError) -> np.ndarray:
    """What q * scales[:, None] gives: one scale is used for all rows."""
    if len(scales) not in (1, len(q)):
        raise error
    return np.asarray(q.double() * scales.double()[:, None])


def _same(step: Step, mine: Any, its: Any) -> bool:
    if step.get("name") != "quantize_rows":
        return same_value(mine, its, 1e-3, 1e-4)
    if not isinstance(mine, list | tuple) or len(mine) != 2:
        return False
    codes, scales = (np.asarray(part) for part in its)
    weights = np.asarray(step["args"][0], dtype=np.float64).reshape(codes.shape)
    return _codes_agree(mine[0], codes, weights, scales) and _scales_agree(mine[1], scales, weights)


def _codes_agree(mine: Any, codes: np.ndarray, weights: np.ndarray, scales: np.ndarray) -> bool:
    if not same_kind(mine, codes):
        return False
    exact = weights / scales.reshape(-1, 1)
    near_a_half = abs(exact - np.floor(exact) - 0.5) < NEAR
    apart = abs(mine.astype(np.float64) - codes.astype(np.float64))
    return bool((apart <= near_a_half).all())


def _scales_agree(mine: Any, scales: np.ndarray, weights: np.ndarray) -> bool:
    """Close; of a row of zeros only finite where the other is."""
    if not isinstance(mine, np.ndarray | list | tuple) or np.shape(mine) != scales.shape:
        return False
    zeros = ~weights.any(axis=1)
    rest = np.asarray(mine)[~zeros] if scales.ndim == 1 else mine
    finite = np.isfinite(np.asarray(mine, dtype=np.float64)) == np.isfinite(scales)
    return bool(finite.all()) and same_value(rest, scales[~zeros] if scales.ndim == 1 else scales, 1e-6, 0.0)


def _tensor(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x, dtype=np.float32))


def _weights(rng: Generator, rows: int, columns: int) -> np.ndarray:
    """The largest value of each row is positive, and 127 times a power of 2: nothing but the rest is rounded."""
    w = rng.uniform(-0.95, 0.95, (rows, columns))
    w[np.arange(rows), rng.integers(columns, size=rows)] = 127 / 128
    return w * 2.0 ** -rng.permutation(rows)[:, None]


def _exact(rng: Generator, rows: int, columns: int, bits: int, largest: int = 1) -> np.ndarray:
    """Whole multiples of a scale that is a power of 2, another for each row: rounding has nothing to do.

    largest: the sign of the largest value of a row.
    """
    top = _top(bits)
    codes = rng.integers(1 - top, top, (rows, columns)).astype(np.float64)
    codes[:, :2] = largest * top, max(1, top // 2)
    return rng.permuted(codes, axis=1) * 2.0 ** -(1.0 + rng.permutation(rows))[:, None]


def _eight(rng: Generator) -> list[Case]:
    return [Case(call("quantize_rows", _tensor(_weights(rng, *size)))) for size in ((2, 9), (5, 3), (1, 40))]


def _fewer(rng: Generator) -> list[Case]:
    return [
        Case(call("quantize_rows", _tensor(_exact(rng, rows, 7, bits)), bits))
        for rows, bits in ((3, 7), (2, 5), (4, 4), (3, 3), (2, 2))
    ]


def _negative(rng: Generator) -> list[Case]:
    sizes = ((2, 8), (3, 4))
    return [
        Case(call("quantize_rows", _tensor(_exact(rng, rows, 5, bits, -1)), bits), unchanged(0)) for rows, bits in sizes
    ]


def _zeros(rng: Generator) -> list[Case]:
    mixed = _exact(rng, 3, 4, 8)
    mixed[1] = 0
    return [Case(call("quantize_rows", _tensor(w))) for w in (mixed, np.zeros((2, 3)))]


def _back(rng: Generator, *sizes: tuple[int, int]) -> list[Case]:
    return [
        Case(
            call(
                "dequantize_rows",
                torch.from_numpy(rng.integers(-127, 128, size).astype(np.int8)),
                _tensor(rng.uniform(0.003, 0.03, size[0])),
            )
        )
        for size in sizes
    ]


def _refused(rng: Generator, of: str) -> list[Case]:
    """Beside each bad call one that gives no codes, and that few mistakes get wrong."""
    good = call("dequantize_rows", torch.tensor([[2, -3]], dtype=torch.int8), _tensor([1.0]))
    codes, w = torch.ones(3, 4, dtype=torch.int8), _tensor(_exact(rng, 2, 3, 4))
    if of == "scales":
        bad = [call("dequantize_rows", codes, _tensor(np.ones(n))) for n in (4, 2, 1)]
    else:
        bad = [*(call("quantize_rows", w, bits) for bits in (1, 0, 9, 16)), call("quantize_rows", w[0])]
    return [Case(step, good) for step in bad]


EXERCISE = Exercise(
    "quantize_rows",
    _quantize(),
    groups=[
        Group("eight bits", 0.5, "codes are w / scale of the row, rounded to the nearest whole number", _eight),
        Group("fewer bits", 0.5, "the largest code is 2^(bits - 1) - 1", _fewer),
        Group("largest is negative", 0.5, "the largest ABSOLUTE value of a row becomes the largest code", _negative),
        Group("rows of zeros", 0.25, "a row of zeros has codes 0 and a finite scale", _zeros),
        Group("back", 0.5, "dequantize_rows: code times the scale of its row", lambda rng: _back(rng, (2, 5), (4, 3))),
        Group("back, square", 0.25, "the scales go with the rows", lambda rng: _back(rng, (4, 4), (2, 2))),
        Group(
            "weights refused", 0.25, "bits outside 2 to 8, and w without rows, raise", lambda rng: _refused(rng, "w")
        ),
        Group(
            "scales refused",
            0.25,
            "scales (rows,), else an error",
            lambda rng: _refused(rng, "scales"),
        ),
    ],
    mistakes=[
        Mistake(
            "largest code 2^(bits - 1)",
            "the largest code is one less than 2^(bits - 1): int8 ends at 127",
            [
                _quantize(lambda bits: 2 ** (bits - 1)),
                _quantize(lambda bits: 2 ** (bits - 1), clip=False),
                {**_quantize(), "quantize_rows": _down_to_128},
            ],
        ),
        Mistake(
            "always 8 bits",
            "with fewer bits the largest code is 2^(bits - 1) - 1, not 127",
            _quantize(lambda bits: 127),
        ),
        Mistake(
            "one scale for all",
            "each row has a scale of its own",
            _quantize(largest=lambda w: np.full(len(w), np.abs(w).max())),
        ),
        Mistake(
            "sign ignored",
            "the largest absolute value counts: a negative one may be larger",
            [_quantize(largest=lambda w: w.max(axis=1), clip=clip) for clip in (True, False)],
        ),
        Mistake(
            "not the nearest",
            "round to the nearest whole number: not down, not up, and do not cut off",
            [_quantize(rounded=rounded) for rounded in (np.trunc, np.floor, np.ceil)],
        ),
        Mistake(
            "not int8",
            "the codes have the dtype int8",
            [_quantize(dtype=dtype) for dtype in ("int64", "int32", "float32", "int16")],
        ),
        Mistake(
            "inverse scales",
            "the scale turns codes into weights: largest / top, not top / largest",
            [_quantize(given=lambda s: 1 / np.where(s, s, math.nan), zero=zero) for zero in (lambda: 1.0, lambda: 0.0)],
        ),
        Mistake("scales with two axes", "the scales are (rows,): one axis", _quantize(given=lambda s: s[:, None])),
        Mistake(
            "zeros divided",
            "a row of zeros needs a finite scale",
            [_quantize(zero=zero) for zero in (lambda: math.inf, lambda: math.nan)],
        ),
        Mistake("inputs changed", "w was changed in place", _quantize(changes=True)),
        Mistake(
            "scales along the columns",
            "dequantize_rows: the scales go with the rows; give them a second axis",
            [{**_quantize(), "dequantize_rows": partial(_along_columns, checks=checks)} for checks in (False, True)],
        ),
        Mistake("divided", "dequantize_rows multiplies by the scale", _quantize(back=lambda q, s: q / s[:, None])),
        Mistake(
            "whole weights", "dequantized weights are floats", _quantize(back=lambda q, s: np.trunc(q * s[:, None]))
        ),
        Mistake(
            "bits unchecked",
            "bits below 2 or above 8 raise ValueError",
            [
                _quantize(bits_from=low, bits_to=high, top=top)
                for low, high in ((-99, 99), (2, 99), (-99, 8))
                for top in (lambda bits: int(2.0 ** (bits - 1)) - 1, lambda bits: 127)
            ],
        ),
        Mistake(
            "axes unchecked",
            "w has two axes, (rows, columns): else ValueError",
            [_quantize(axes=axes) for axes in (None, IndexError, RuntimeError)],
        ),
        Mistake(
            "scales unchecked",
            "dequantize_rows: there must be one scale for each row, else ValueError",
            [
                {**_quantize(), "dequantize_rows": way}
                for way in (_as_it_comes, partial(_as_it_comes, error=ValueError))
            ],
        ),
    ],
    compare=by_step(_same),
)
