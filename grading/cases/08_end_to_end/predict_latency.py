"""Held-out cases of predict_latency. The oracle counts query by query, apart from the unit's solution and from kvlab."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Sizes = dict[str, Any]
Pass = tuple[float, float]  # seconds of arithmetic, seconds of traffic


def _predict(
    pairs: Callable[[int, int], int] = lambda new, past: sum(past + i + 1 for i in range(new)),
    held: Callable[[int, int], int] = lambda new, past: new + past,
    flop_heads: str = "n_heads",
    cache_heads: str = "n_kv_heads",
    per_token: float = 2,
    per_pair: float = 4,
    values: int = 2,
    width: Callable[[Sizes], float] = lambda m: m["bytes_per_value"],
    cache_width: Callable[[Sizes], float] | None = None,
    flop_batch: Callable[[int], int] = lambda b: b,
    weight_batch: Callable[[int], int] = lambda b: 1,
    cache_batch: Callable[[int], int] = lambda b: b,
    limit: Callable[[float, float], float] = max,
    steps: Callable[[int, int], Sequence[int]] = lambda prompt, n_new: range(prompt, prompt + n_new - 1),
    tpot: Callable[[list[float], int], float] = lambda ts, n_new: math.fsum(ts) / len(ts) if ts else math.nan,
    e2e: Callable[[float, list[float]], float] = lambda first, ts: first + math.fsum(ts),
    factor: float = 1.0,
    least: tuple[float, float, float] = (1, 1, 1),
) -> dict[str, Any]:
    """pairs, held: of a pass of `new` tokens after `past` ones; steps: the past of each decode pass.

    per_token, per_pair: FLOPs; values: K and V; limit: a pass from its two times; least: prompt_len, n_new, batch.
    """

    def one(m: Sizes, gpu: Sizes, new: int, past: int, batch: int) -> float:
        attention = per_pair * m["n_layers"] * m[flop_heads] * m["d_head"] * pairs(new, past)
        flops = flop_batch(batch) * (per_token * m["n_params"] * new + attention)
        cache = values * m["n_layers"] * m[cache_heads] * m["d_head"] * held(new, past) * (cache_width or width)(m)
        moved = weight_batch(batch) * m["n_params"] * width(m) + cache_batch(batch) * cache
        return limit(flops / gpu["peak_flops"], moved / gpu["bandwidth"])

    def predict_latency(model: Sizes, gpu: Sizes, prompt_len: int, n_new: int, batch: int = 1) -> dict[str, float]:
        if any(x < low for x, low in zip((prompt_len, n_new, batch), least, strict=True)):
            raise ValueError
        first = one(model, gpu, prompt_len, 0, batch)
        times = [one(model, gpu, 1, past, batch) for past in steps(prompt_len, n_new)]
        found = {"ttft": first, "tpot": tpot(times, n_new), "e2e": e2e(first, times)}
        return {name: seconds * factor for name, seconds in found.items()}

    return {"predict_latency": predict_latency}


def _model(rng: Generator, group: int = 1, width: float = 2) -> Sizes:
    heads = int(rng.integers(2, 6))
    return {
        "n_params": int(rng.integers(2000, 6000)),
        "n_layers": int(rng.integers(2, 5)),
        "n_heads": heads * group,
        "n_kv_heads": heads,
        "d_head": int(rng.integers(3, 9)),
        "bytes_per_value": width,
    }


def _gpu(rng: Generator, which: str) -> Sizes:
    """What limits: "traffic", "arithmetic"; or "both", where prefill of a long prompt computes and decode reads."""
    fast = float(rng.uniform(1, 3))
    peak, bandwidth = {
        "traffic": (1e15, 1e5 * fast),
        "arithmetic": (1e5 * fast, 1e15),
        "both": (2e6 * fast, 3e5 * fast),
    }[which]
    return {"peak_flops": peak, "bandwidth": bandwidth, "memory_bytes": 8e10}


def _case(model: Sizes, gpu: Sizes, *counts: int) -> Case:
    return Case(call("predict_latency", model, gpu, *counts))


def _limited(rng: Generator, which: str) -> list[Case]:
    return [_case(_model(rng), _gpu(rng, which), *counts) for counts in ((5, 2), (12, 9), (30, 40))]


def _one(rng: Generator) -> list[Case]:
    cases = [_case(_model(rng), _gpu(rng, "traffic"), 1, 1) for _ in range(2)]
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _batches(rng: Generator) -> list[Case]:
    return [_case(_model(rng), _gpu(rng, which), 1, 1, n) for which in ("traffic", "arithmetic") for n in (2, 7, 64)]


def _shared(rng: Generator) -> list[Case]:
    return [_case(_model(rng, n), _gpu(rng, which), 1, 1) for which in ("traffic", "arithmetic") for n in (2, 8)]


def _widths(rng: Generator) -> list[Case]:
    return [_case(_model(rng, width=width), _gpu(rng, "traffic"), 5, 3) for width in (0.5, 1, 4)]


def _both(rng: Generator) -> list[Case]:
    return [_case(_model(rng), _gpu(rng, "both"), *counts) for counts in ((40, 30), (100, 5), (25, 60))]


def _refused(rng: Generator) -> list[Case]:
    model, gpu = _model(rng), _gpu(rng, "both")
    bad = [(0, 3), (-2, 3), (3, 0), (3, -1), (3, 3, 0), (3, 3, -2)]
    return [Case(*_case(model, gpu, *counts).steps, *_case(model, gpu, 1, 1).steps) for counts in bad]


EXERCISE = Exercise(
    "predict_latency",
    _predict(),
    groups=[
        Group(
            "memory decides",
            0.5,
            "bytes of each pass: weights, and K and V of all tokens so far",
            lambda rng: _limited(rng, "traffic"),
        ),
        Group(
            "arithmetic decides",
            0.5,
            "FLOPs of each pass: 2 per parameter and token, 4 L H d per pair",
            lambda rng: _limited(rng, "arithmetic"),
        ),
        Group("one new token", 0.25, "the prefill gives it: tpot is nan, e2e is ttft", _one),
        Group("batches", 0.5, "the batch multiplies FLOPs and caches, not the weights", _batches),
        Group("shared KV heads", 0.25, "FLOPs go with n_heads, the cache with n_kv_heads", _shared),
        Group("other widths", 0.25, "bytes_per_value counts for weights and cache", _widths),
        Group("both decide", 0.5, "the larger of the two times in each pass, then the sum", _both),
        Group("refused", 0.25, "a prompt_len, n_new or batch below 1 raises ValueError", _refused),
    ],
    mistakes=[
        Mistake(
            "all pairs",
            "a query sees itself and what comes before: n (n + 1) / 2 pairs",
            _predict(lambda new, past: new * (new + past)),
        ),
        Mistake(
            "itself not counted",
            "a query sees itself too: n (n + 1) / 2 pairs",
            _predict(lambda new, past: sum(past + i for i in range(new))),
        ),
        Mistake("attention forgotten", "each pair costs 4 L H d FLOPs", _predict(per_pair=0)),
        Mistake(
            "scores only", "a pair costs twice: score and weighted sum, 2 FLOPs per entry each", _predict(per_pair=2)
        ),
        Mistake("one FLOP per parameter", "each parameter costs 2 FLOPs per token", _predict(per_token=1)),
        Mistake("cache forgotten", "a pass reads the cache too", _predict(values=0)),
        Mistake("keys only", "the cache holds keys and values", _predict(values=1)),
        Mistake(
            "new tokens not held",
            "the K and V of the tokens of the pass count too",
            [_predict(held=lambda new, past: past), _predict(held=lambda new, past: max(past, 1))],
        ),
        Mistake(
            "KV heads compute", "the queries have n_heads heads: FLOPs go with these", _predict(flop_heads="n_kv_heads")
        ),
        Mistake("query heads cached", "the cache has n_kv_heads heads", _predict(cache_heads="n_heads")),
        Mistake(
            "always two bytes",
            "use bytes_per_value, for weights and cache",
            [
                _predict(width=lambda m: 2),
                _predict(cache_width=lambda m: 2),
                _predict(width=lambda m: 2, cache_width=lambda m: m["bytes_per_value"]),
            ],
        ),
        Mistake(
            "parameters are no bytes",
            "weights take n_params * bytes_per_value bytes",
            _predict(width=lambda m: 1, cache_width=lambda m: m["bytes_per_value"]),
        ),
        Mistake(
            "weights read for each sequence",
            "the weights are read once for the whole batch",
            _predict(weight_batch=lambda b: b),
        ),
        Mistake(
            "one cache for the batch", "each sequence of the batch has its own cache", _predict(cache_batch=lambda b: 1)
        ),
        Mistake("batch computes once", "each sequence of the batch is computed", _predict(flop_batch=lambda b: 1)),
        Mistake(
            "batch ignored",
            "the batch multiplies FLOPs and caches",
            _predict(flop_batch=lambda b: 1, cache_batch=lambda b: 1),
        ),
        Mistake(
            "both times added",
            "a pass takes the larger of the two times, not their sum",
            _predict(limit=lambda a, b: a + b),
        ),
        Mistake("smaller time", "a pass takes the larger of the two times", _predict(limit=min)),
        Mistake(
            "context stands still",
            "each decode pass has one token more so far",
            [
                _predict(steps=lambda prompt, n_new: [prompt] * (n_new - 1)),
                _predict(steps=lambda prompt, n_new: [prompt + n_new - 2] * (n_new - 1)),
                _predict(steps=lambda prompt, n_new: [prompt - 1] * (n_new - 1)),
            ],
        ),
        Mistake(
            "context one short",
            "the first decode pass has prompt_len + 1 tokens so far: its own token counts",
            _predict(steps=lambda prompt, n_new: range(prompt - 1, prompt + n_new - 2)),
        ),
        Mistake(
            "context one long",
            "the first decode pass has prompt_len + 1 tokens so far",
            _predict(steps=lambda prompt, n_new: range(prompt + 1, prompt + n_new)),
        ),
        Mistake(
            "one pass too many",
            "the prefill gives the first token: n_new - 1 decode passes are left",
            [
                _predict(steps=lambda prompt, n_new: range(prompt, prompt + n_new)),
                _predict(
                    steps=lambda prompt, n_new: range(prompt, prompt + n_new),
                    e2e=lambda first, ts: first + math.fsum(ts[:-1]),
                ),
            ],
        ),
        Mistake(
            "divided by all tokens",
            "tpot is the mean of the n_new - 1 decode passes",
            [
                _predict(tpot=lambda ts, n_new: math.fsum(ts) / n_new if ts else math.nan),
                _predict(tpot=lambda ts, n_new: math.fsum(ts) / n_new),
            ],
        ),
        Mistake(
            "tpot of one token",
            "without a decode pass tpot is nan",
            [
                _predict(tpot=lambda ts, n_new, other=other: math.fsum(ts) / len(ts) if ts else other())
                for other in (
                    lambda: 0.0,
                    lambda: math.inf,
                    lambda: _raise(ZeroDivisionError),
                    lambda: _raise(ValueError),
                )
            ],
        ),
        Mistake(
            "last pass for all",
            "tpot is the mean of all decode passes",
            [_predict(tpot=lambda ts, n_new, i=i: ts[i] if ts else math.nan) for i in (-1, 0)],
        ),
        Mistake("prefill left out", "e2e begins with the prefill", _predict(e2e=lambda first, ts: math.fsum(ts))),
        Mistake("milliseconds", "seconds, not milliseconds", _predict(factor=1e3)),
        Mistake(
            "counts unchecked",
            "a prompt_len, n_new or batch below 1 raises ValueError",
            [_predict(least=(a, b, c)) for a in (1, -99) for b in (1, -99) for c in (1, -99) if min(a, b, c) < 1]
            + [
                _predict(least=(0, 0, 0)),
                _predict(least=(0, 1, 1)),
                _predict(least=(1, 0, 1)),
                _predict(least=(1, 1, 0)),
            ],
        ),
    ],
    rtol=1e-6,
    atol=0.0,
)


def _raise(error: type[Exception]) -> float:
    raise error
