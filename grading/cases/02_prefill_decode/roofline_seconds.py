"""Held-out cases of roofline_seconds. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call

Rates = Callable[[float, float], bool]


def _larger(compute: float, moving: float) -> float:
    return moving if compute < moving else compute


def _roofline(
    join: Callable[[float, float], float] = _larger,
    pick: Callable[[float, float, float, float], float] | None = None,
    refuses: Rates = lambda peak, bandwidth: not (peak > 0 and bandwidth > 0),
    by_zero: Callable[[float], float] | None = None,
    factor: float = 1.0,
) -> dict[str, Any]:
    """The roofline, with the ways to get it wrong as arguments. by_zero: what work over a rate of 0 gives."""

    def over(work: float, rate: float) -> float:
        if rate == 0 and by_zero:
            return by_zero(work)
        return work / rate

    def roofline_seconds(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
        if refuses(peak_flops, bandwidth):
            raise ValueError
        if pick:
            return pick(flops, bytes_moved, peak_flops, bandwidth)
        return factor * join(over(flops, peak_flops), over(bytes_moved, bandwidth))

    return {"roofline_seconds": roofline_seconds}


def _unguarded(refuses: Rates) -> list[dict[str, Any]]:
    """Ways to go on with a rate that is 0: Python stops, numpy goes on with infinity or nan."""
    return [
        _roofline(refuses=refuses),
        _roofline(refuses=refuses, by_zero=lambda work: math.inf if work else math.nan),
        _roofline(refuses=refuses, by_zero=lambda work: math.inf),
    ]


def _rates(rng: Generator) -> tuple[float, float]:
    """Rates as GPUs have them."""
    return float(rng.uniform(1e14, 1e15)), float(rng.uniform(1e12, 4e12))


def _case(flops: float, moved: float, peak: float, bandwidth: float) -> Case:
    return Case(call("roofline_seconds", flops, moved, peak, bandwidth))


def _timed(rng: Generator, compute: float, moving: float) -> Case:
    """Work that takes so many seconds of arithmetic and of traffic."""
    peak, bandwidth = _rates(rng)
    return _case(compute * peak, moving * bandwidth, peak, bandwidth)


def _compute_bound(rng: Generator) -> list[Case]:
    return [_timed(rng, t * float(rng.uniform(1.5, 20)), t) for t in rng.uniform(1e-4, 1e-1, 5).tolist()]


def _memory_bound(rng: Generator) -> list[Case]:
    """More operations than bytes all the same, as in decode with a batch."""
    return [_timed(rng, t, t * float(rng.uniform(1.5, 20))) for t in rng.uniform(1e-4, 1e-1, 5).tolist()]


def _slow_machine(rng: Generator) -> list[Case]:
    """Numbers of order one, either side ahead: whole seconds, and rates below 1."""
    cases = []
    for scale in (0.2, 0.5, 3.0):
        peak, bandwidth = (scale * float(x) for x in rng.uniform(0.5, 2.0, 2))
        for ahead in (0.3, 4.0):
            cases.append(_case(ahead * peak * 5, 5 * bandwidth, peak, bandwidth))
    return cases


def _nothing_of_one(rng: Generator) -> list[Case]:
    a, b = rng.uniform(1e-3, 1e-1, 2).tolist()
    return [_timed(rng, a, 0.0), _timed(rng, 0.0, b)]


def _no_work(rng: Generator) -> list[Case]:
    return [_case(0.0, 0.0, *_rates(rng)) for _ in range(2)]


def _bad(rng: Generator, peaks: tuple[float, ...], bandwidths: tuple[float, ...]) -> list[Case]:
    """Each bad pair of rates, and then good rates with no work: every mistake in the time itself is blind to that."""
    cases = []
    for peak_sign in peaks:
        for bandwidth_sign in bandwidths:
            peak, bandwidth = _rates(rng)
            bad = _case(1e12, 1e10, peak_sign * peak, bandwidth_sign * bandwidth)
            cases.append(Case(*bad.steps, *_no_work(rng)[0].steps))
    return cases


EXERCISE = Exercise(
    "roofline_seconds",
    _roofline(),
    groups=[
        Group("arithmetic decides", 0.5, "the time of the arithmetic is the larger one here", _compute_bound),
        Group("traffic decides", 0.5, "the time of the memory traffic is the larger one here", _memory_bound),
        Group("small numbers", 0.25, "work divided by its rate, whatever the units are", _slow_machine),
        Group(
            "nothing of one kind",
            0.25,
            "without arithmetic, or without traffic, the other one decides",
            _nothing_of_one,
        ),
        Group("no work", 0.125, "no work takes no time", _no_work),
        Group(
            "peak_flops not positive",
            0.125,
            "peak_flops of 0 or less raises ValueError",
            lambda r: _bad(r, (0, -1), (1,)),
        ),
        Group(
            "bandwidth not positive",
            0.125,
            "a bandwidth of 0 or less raises ValueError",
            lambda r: _bad(r, (1,), (0, -1)),
        ),
        Group(
            "both rates negative", 0.125, "each of the two rates has to be positive", lambda r: _bad(r, (-1,), (-1,))
        ),
    ],
    mistakes=[
        Mistake("sum", "both go on at the same moment: the larger time, not the sum", _roofline(lambda c, m: c + m)),
        Mistake("smaller time", "the slower of the two decides: the larger time", _roofline(min)),
        Mistake("mean", "the slower of the two decides, not their mean", _roofline(lambda c, m: (c + m) / 2)),
        Mistake("arithmetic only", "the bytes take time too", _roofline(lambda c, m: c)),
        Mistake("traffic only", "the operations take time too", _roofline(lambda c, m: m)),
        Mistake(
            "work compared, not time",
            "compare the two times: more operations than bytes says nothing yet",
            _roofline(pick=lambda f, b, p, w: f / p if f > b else b / w),
        ),
        Mistake(
            "rates swapped",
            "operations go with peak_flops, bytes with the bandwidth",
            _roofline(pick=lambda f, b, p, w: max(f / w, b / p)),
        ),
        Mistake(
            "rate over work",
            "work divided by its rate gives seconds, not the other way round",
            [
                _roofline(pick=lambda f, b, p, w: max(p / f, w / b)),
                _roofline(pick=lambda f, b, p, w: max(p / f if f else 0.0, w / b if b else 0.0)),
                _roofline(pick=lambda f, b, p, w: max(p / f if f else math.inf, w / b if b else math.inf)),
            ],
        ),
        Mistake("milliseconds", "the result is in seconds", _roofline(factor=1000.0)),
        Mistake("no errors", "rates that are not positive have to raise ValueError", _unguarded(lambda p, w: False)),
        Mistake("peak_flops unchecked", "peak_flops has to be positive too", _unguarded(lambda p, w: w <= 0)),
        Mistake("bandwidth unchecked", "the bandwidth has to be positive too", _unguarded(lambda p, w: p <= 0)),
        Mistake(
            "zero passes", "a rate of 0 is not positive: raise ValueError", _unguarded(lambda p, w: p < 0 or w < 0)
        ),
        Mistake(
            "negative rates pass", "a negative rate has to raise ValueError", _roofline(refuses=lambda p, w: p * w == 0)
        ),
        Mistake(
            "product of the rates checked",
            "check each rate: the product of two negative ones is positive",
            _roofline(refuses=lambda p, w: p * w <= 0),
        ),
    ],
    rtol=1e-6,
    atol=0.0,
)
