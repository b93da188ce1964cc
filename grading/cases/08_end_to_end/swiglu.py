"""Held-out cases of swiglu. The oracle is written apart from the unit's solution and from kvlab.

Most groups have gates so far open (or so tightly shut) that silu is nearly the identity (or 0): they show what is
multiplied with what. Two groups have gates around 0, where the shape of silu shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Array = np.ndarray


def _sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


def _silu(a: Array) -> Array:
    return a * _sigmoid(a)


def _gelu(a: Array) -> Array:
    return a * 0.5 * (1 + np.vectorize(math.erf)(a / math.sqrt(2)))


def _swiglu(
    mixed: Callable[[Array, Array], Array] = lambda gate, up: _silu(gate) * up,
    used: Callable[[Array], Array] = lambda w: w,
    checks: str = "input gate down out",
    error: type[Exception] | None = RuntimeError,
    changes: bool = False,
) -> dict[str, Any]:
    """mixed: from x @ w_gate and x @ w_up to the features; used: how a square matrix is read; checks: what is looked at.

    error: what torch raises where shapes do not fit and nobody looked.
    """

    def swiglu(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Array:
        unfit = {
            "input": x.shape[-1] != w_gate.shape[0] or x.shape[-1] != w_up.shape[0],
            "gate": w_gate.shape[1] != w_up.shape[1],
            "down": w_down.shape[0] != w_gate.shape[1],
            "out": w_down.shape[1] != x.shape[-1],
        }
        if any(wrong for name, wrong in unfit.items() if name in checks):
            raise ValueError
        one = unfit["gate"] and 1 in (w_gate.shape[1], w_up.shape[1])  # broadcasts: no error by itself
        if unfit["input"] or (unfit["gate"] and not one) or (unfit["down"] and not one):
            raise error or ValueError
        rows, gate, up, down = (a.double().numpy() for a in (x, w_gate, w_up, w_down))
        square = gate.shape[0] == gate.shape[1]
        gate, up, down = (used(w) if square else w for w in (gate, up, down))
        out = mixed(rows @ gate, rows @ up) @ down
        if changes:
            x.zero_()
        return out

    return {"swiglu": swiglu}


def _step(*arrays: Array) -> Case:
    return Case(call("swiglu", *(torch.from_numpy(a.astype(np.float32)) for a in arrays)))


def _open(rng: Generator, shape: tuple[int, ...], features: int, sign: float = 1.0) -> Case:
    """x @ w_gate and x @ w_up all above 12 (or below -20), where silu(a) is a (or 0) to all digits that count."""
    d = shape[-1]
    x = rng.uniform(1, 2, shape)
    gate, up = rng.uniform(1, 2, (2, d, features)) * (12 if sign > 0 else 20) / d * sign
    return _step(x, gate, up, rng.normal(size=(features, d)) / 12)


def _around_zero(rng: Generator, shape: tuple[int, ...], features: int) -> Case:
    d = shape[-1]
    gate, up, down = (rng.normal(size=size) / np.sqrt(d) for size in ((d, features), (d, features), (features, d)))
    return _step(rng.normal(size=shape) * 1.5, gate, up, down)


def _refused(rng: Generator) -> list[Case]:
    good = _open(rng, (2,), 3).steps
    x, gate, up, down = _around_zero(rng, (2, 4), 6).steps[0]["args"]
    bad = [(x, gate[:3], up[:3], down), (x[:, :3], gate, up, down), (x, gate, up[:, :5], down)]
    bad += [(x, gate, up[:, :1], down), (x, gate, up, down[:5]), (x, gate, up, down[:, :3])]
    return [Case(call("swiglu", *args), *good) for args in bad]


def _groups() -> list[Group]:
    def group(name: str, why: str, make: Callable[..., Case], *sizes: Any, **more: Any) -> Group:
        return Group(name, 0.125, why, lambda rng: [make(rng, *size, **more) for size in sizes])

    return [
        group("open gates", "gate and up are multiplied, entry by entry", _open, ((3,), 5), ((2, 4), 6)),
        Group(
            "shut gates",
            0.125,
            "silu of a very negative number is nearly 0; the inputs stay as they are",
            lambda rng: [Case(*_open(rng, *size, sign=-1.0).steps, unchanged(0)) for size in (((3,), 5), ((2, 4), 6))],
        ),
        group("gates around 0", "silu(a) = a * sigmoid(a), of the gate alone", _around_zero, ((6,), 9), ((3, 4), 11)),
        group("wide", "F may be larger than D", _open, ((2,), 9), ((4, 3), 20)),
        group("narrow", "F may be smaller than D", _open, ((7,), 2), ((2, 9), 1)),
        group("square", "matrices are used as they are, not transposed", _open, ((4,), 4), ((3, 5), 5)),
        group("several axes", "every row for itself", _around_zero, ((2, 3, 4), 5), ((2, 1, 2, 3), 4)),
        Group("refused", 0.125, "shapes that do not fit together raise ValueError", _refused),
    ]


EXERCISE = Exercise(
    "swiglu",
    _swiglu(),
    groups=_groups(),
    mistakes=[
        Mistake("gate and up swapped", "silu is applied to x @ w_gate", _swiglu(lambda gate, up: gate * _silu(up))),
        Mistake(
            "relu",
            "silu, not relu: a negative gate lets a little through",
            _swiglu(lambda gate, up: np.maximum(gate, 0) * up),
        ),
        Mistake(
            "gelu",
            "silu(a) is a * sigmoid(a): gelu is another function",
            [_swiglu(lambda gate, up: _gelu(gate) * up), _swiglu(lambda gate, up: gate * _sigmoid(1.702 * gate) * up)],
        ),
        Mistake(
            "sigmoid", "silu(a) is a * sigmoid(a), not the sigmoid alone", _swiglu(lambda gate, up: _sigmoid(gate) * up)
        ),
        Mistake("no silu", "silu is missing", _swiglu(lambda gate, up: gate * up)),
        Mistake("silu twice", "silu is applied to the gate alone", _swiglu(lambda gate, up: _silu(gate) * _silu(up))),
        Mistake(
            "silu of the product",
            "silu is applied to the gate, before the product",
            _swiglu(lambda gate, up: _silu(gate * up)),
        ),
        Mistake("added", "gate and up are multiplied, not added", _swiglu(lambda gate, up: _silu(gate) + up)),
        Mistake("no gate", "the gate is missing", _swiglu(lambda gate, up: _silu(up))),
        Mistake("no up", "x @ w_up is missing", _swiglu(lambda gate, up: _silu(gate))),
        Mistake(
            "exponent without its sign",
            "silu(a) = a / (1 + exp(-a)): the exponent has a minus",
            _swiglu(lambda gate, up: gate * _sigmoid(-gate) * up),
        ),
        Mistake("transposed", "matrices are (d_in, d_out) and used as x @ w", _swiglu(used=lambda w: w.T)),
        Mistake("inputs changed", "x was changed in place", _swiglu(changes=True)),
        Mistake(
            "shapes unchecked",
            "shapes that do not fit together raise ValueError",
            [
                _swiglu(checks=checks)
                for checks in (
                    "",
                    "input",
                    "input down",
                    "input gate",
                    "input gate down",
                    "gate down out",
                    "input down out",
                )
            ]
            + [_swiglu(checks=checks, error=None) for checks in ("", "gate", "out")],
        ),
    ],
)
