"""Held-out cases of max_concurrent. The oracle fills memory sequence by sequence, apart from solution and kvlab."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call

Sizes = dict[str, Any]


def _fill(room: float, each: float) -> int:
    count = 0
    while (count + 1) * each <= room:
        count += 1
    return count


def _fits(
    weights: Callable[[Sizes], float] = lambda m: m["n_params"] * m["bytes_per_value"],
    per_token: Callable[[Sizes], float] = lambda m: (
        2 * m["n_layers"] * m["n_kv_heads"] * m["d_head"] * m["bytes_per_value"]
    ),
    reserve: Callable[[float], float] = lambda r: r,
    count: Callable[[float, float], float] = _fill,
    least: int = 1,
    zero: type[Exception] = ValueError,
    reserve_from: float = 0,
) -> dict[str, Any]:
    def max_concurrent(model: Sizes, gpu: Sizes, seq_len: int, reserve_bytes: float = 0) -> float:
        if seq_len < least or reserve_bytes < reserve_from:
            raise ValueError
        if seq_len == 0:
            raise zero
        each = per_token(model) * seq_len
        if each < 0:
            return max(0, int((gpu["memory_bytes"] - reserve(reserve_bytes) - weights(model)) // each))
        return count(gpu["memory_bytes"] - reserve(reserve_bytes) - weights(model), each)

    return {"max_concurrent": max_concurrent}


def _model(rng: Generator, light: bool = True, layers: int = 3, group: int = 1, width: float = 2) -> Sizes:
    """light: weights of fewer bytes than the cache of a sequence; group: query heads that share a KV head."""
    heads = int(rng.integers(2, 6))
    return {
        "n_params": int(rng.integers(10, 30)) if light else 1000 * int(rng.integers(50, 90)),
        "n_layers": layers,
        "n_heads": heads * group,
        "n_kv_heads": heads,
        "d_head": int(rng.integers(4, 9)),
        "bytes_per_value": width,
    }


def _case(model: Sizes, fit: int, more: float = 0, *reserve: float) -> Case:
    """A memory in which `fit` sequences of 20 tokens fit exactly, and `more` of another one; with a reserve, beside it."""
    each = 40 * model["n_layers"] * model["n_kv_heads"] * model["d_head"] * model["bytes_per_value"]
    memory = model["n_params"] * model["bytes_per_value"] + each * fit + more * each + sum(reserve)
    gpu = {"peak_flops": 1e12, "bandwidth": 1e9, "memory_bytes": int(memory)}
    return Case(call("max_concurrent", model, gpu, 20, *reserve))


def _some(rng: Generator) -> int:
    return int(rng.integers(9, 60))


def _plain(rng: Generator) -> list[Case]:
    return [_case(_model(rng, light=False, layers=1), _some(rng), more) for more in (0.2, 0.4)]


def _rounding(rng: Generator) -> list[Case]:
    return [_case(_model(rng), _some(rng), more) for more in (0.7, 0.95)]


def _exact(rng: Generator) -> list[Case]:
    return [_case(_model(rng, layers=1), n) for n in (1, _some(rng))]


def _reserve(rng: Generator) -> list[Case]:
    return [_case(_model(rng, layers=1), _some(rng), 0, 1000 * int(rng.integers(80, 400))) for _ in range(3)]


def _nothing(rng: Generator) -> list[Case]:
    return [_case(_model(rng, light=False, layers=1), 0, more) for more in (-2.5, 0.4, -7.2)]


def _shared(rng: Generator) -> list[Case]:
    return [_case(_model(rng, group=group), _some(rng)) for group in (2, 4, 8)]


def _widths(rng: Generator) -> list[Case]:
    return [
        _case(_model(rng, light=light, width=width), _some(rng)) for width in (0.5, 1, 4) for light in (True, False)
    ]


def _refused(rng: Generator) -> list[Case]:
    good = _case(_model(rng, layers=1), 0).steps
    model, gpu, _ = _case(_model(rng), 20, 0.2).steps[0]["args"]
    bad = [(0,), (-1,), (-int(rng.integers(2, 30)),), (10, -1), (10, -1000 * int(rng.integers(100, 900)))]
    return [Case(call("max_concurrent", model, gpu, *args), good[0]) for args in bad]


EXERCISE = Exercise(
    "max_concurrent",
    _fits(),
    groups=[
        Group("what is left", 0.125, "memory less the weights, by the cache of one sequence", _plain),
        Group("rounding", 0.125, "whole sequences only: rounded down", _rounding),
        Group("exact fits", 0.125, "what fits exactly, fits", _exact),
        Group("a reserve", 0.125, "the reserve is kept free, once", _reserve),
        Group("nothing fits", 0.125, "0, never a negative number", _nothing),
        Group("shared KV heads", 0.125, "the cache has n_kv_heads, not n_heads", _shared),
        Group("other widths", 0.125, "bytes_per_value counts for weights and cache", _widths),
        Group("refused", 0.125, "a seq_len below 1, and a negative reserve, raise ValueError", _refused),
    ],
    mistakes=[
        Mistake("weights forgotten", "the weights take room too", _fits(lambda m: 0)),
        Mistake(
            "parameters are no bytes", "weights take n_params * bytes_per_value bytes", _fits(lambda m: m["n_params"])
        ),
        Mistake("reserve forgotten", "the reserve is kept free", _fits(reserve=lambda r: 0)),
        Mistake("reserve added", "the reserve is taken away, not added", _fits(reserve=lambda r: -r)),
        Mistake(
            "query heads",
            "the cache has n_kv_heads, not n_heads",
            _fits(per_token=lambda m: 2 * m["n_layers"] * m["n_heads"] * m["d_head"] * m["bytes_per_value"]),
        ),
        Mistake(
            "keys only",
            "the cache holds keys and values",
            _fits(per_token=lambda m: m["n_layers"] * m["n_kv_heads"] * m["d_head"] * m["bytes_per_value"]),
        ),
        Mistake(
            "one layer",
            "every layer has its own cache",
            _fits(per_token=lambda m: 2 * m["n_kv_heads"] * m["d_head"] * m["bytes_per_value"]),
        ),
        Mistake(
            "always two bytes",
            "use bytes_per_value, for weights and cache",
            [
                _fits(lambda m: 2 * m["n_params"], lambda m: 4 * m["n_layers"] * m["n_kv_heads"] * m["d_head"]),
                _fits(per_token=lambda m: 4 * m["n_layers"] * m["n_kv_heads"] * m["d_head"]),
                _fits(lambda m: 2 * m["n_params"]),
            ],
        ),
        Mistake(
            "rounded up",
            "a sequence that fits in part does not fit",
            _fits(count=lambda room, each: max(0, math.ceil(room / each))),
        ),
        Mistake(
            "rounded", "rounded down, not to the nearest", _fits(count=lambda room, each: max(0, round(room / each)))
        ),
        Mistake(
            "not rounded",
            "the result is a whole number",
            [_fits(count=lambda room, each: max(0, room / each)), _fits(count=lambda room, each: room / each)],
        ),
        Mistake(
            "exact fit lost",
            "what fits exactly, fits",
            _fits(count=lambda room, each: max(0, math.ceil(room / each) - 1)),
        ),
        Mistake(
            "negative",
            "never below 0",
            [_fits(count=lambda room, each: int(room // each)), _fits(count=lambda room, each: int(room / each))],
        ),
        Mistake(
            "at least one",
            "0 when not even one sequence fits",
            _fits(count=lambda room, each: max(1, int(room // each))),
        ),
        Mistake(
            "refuses what is full",
            "0, no error, when nothing fits",
            _fits(count=lambda room, each: _raise() if room < 0 else int(room // each)),
        ),
        Mistake(
            "seq_len unchecked",
            "a seq_len below 1 raises ValueError, 0 and negative ones",
            [_fits(least=0, zero=ZeroDivisionError), _fits(least=-999), _fits(least=-999, zero=ZeroDivisionError)],
        ),
        Mistake("reserve unchecked", "a negative reserve raises ValueError", _fits(reserve_from=-math.inf)),
    ],
)


def _raise() -> int:
    raise ValueError
