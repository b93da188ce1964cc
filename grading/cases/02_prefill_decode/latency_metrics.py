"""Held-out cases of latency_metrics. The oracle is written apart from the unit's solution and from kvlab.

All times are multiples of 2^-10 s below 16 s, which float32 holds exactly: no answer loses marks by rounding.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged


def _raise(error: type[Exception]) -> float:
    raise error


def _metrics(
    ttft: Callable[[float, Sequence[float]], float] = lambda r, ts: ts[0] - r,
    tpot: Callable[[float, Sequence[float]], float] = lambda r, ts: statistics.fmean(_gaps(ts)),
    tpot_of_one: Callable[[float], float] = lambda ttft: math.nan,
    tps: Callable[[float, Sequence[float], float], float] = lambda r, ts, tpot: 1 / tpot,
    tps_of_one: Callable[[float], float] = lambda ttft: math.nan,
    tps_of_zero: Callable[[], float] = lambda: math.inf,
    e2e: Callable[[float, Sequence[float], float], float] = lambda r, ts, tpot: ts[-1] - r,
    empty: Callable[[], Any] = lambda: _raise(ValueError),
    backwards: Callable[[Sequence[float]], bool] = lambda ts: any(gap < 0 for gap in _gaps(ts)),
    early: Callable[[float, Sequence[float]], bool] = lambda r, ts: ts[0] < r,
    factor: float = 1.0,
) -> dict[str, Any]:
    """The four numbers, with the ways to get them wrong as arguments."""

    def latency_metrics(requested_at: float, token_times: list[float]) -> dict[str, float]:
        if not token_times:
            return empty()
        if backwards(token_times) or early(requested_at, token_times):
            raise ValueError
        first = ttft(requested_at, token_times)
        one = len(token_times) == 1
        gap = tpot_of_one(first) if one else tpot(requested_at, token_times)
        speed = tps_of_one(first) if one else tps_of_zero() if gap == 0 else tps(requested_at, token_times, gap)
        total = e2e(requested_at, token_times, gap)
        return {"ttft": first * factor, "tpot": gap * factor, "tps": speed, "e2e": total * factor}

    return {"latency_metrics": latency_metrics}


def _gaps(times: Sequence[float]) -> list[float]:
    return [times[i + 1] - times[i] for i in range(len(times) - 1)]


def _every(gap: int) -> float:
    return gap / 1024


def _case(requested_at: float, times: Sequence[float]) -> Case:
    return Case(call("latency_metrics", requested_at, list(times)))


def _times(rng: Generator, start: float, n: int, even: bool = False) -> list[float]:
    """n times after a wait: gaps of a few ms, so uneven (unless `even`) that their mean is not their median."""
    wait = int(rng.integers(200, 700))
    gaps = [int(rng.integers(20, 60))] * (n - 1) if even else [int(g) for g in rng.integers(5, 40, n - 1)]
    if not even:
        gaps[int(rng.integers(n - 1))] += 400
    times = [start + _every(wait)]
    for gap in gaps:
        times.append(times[-1] + _every(gap))
    return times


def _late(rng: Generator) -> float:
    """A clock that started long before the request."""
    return _every(int(rng.integers(2000, 5000)))


def _even(rng: Generator) -> list[Case]:
    return [_case(0.0, _times(rng, 0.0, n, even=True)) for n in (2, 5, 17)]


def _uneven(rng: Generator) -> list[Case]:
    cases = []
    for n in (4, 9, 40):
        start = _late(rng)
        cases.append(_case(start, _times(rng, start, n)))
    return cases


def _one(rng: Generator) -> list[Case]:
    start = _late(rng)
    return [_case(at, [at + _every(int(rng.integers(100, 900)))]) for at in (0.0, start)]


def _all_equal(rng: Generator) -> list[Case]:
    start = _late(rng)
    return [_case(start, [start + _every(int(rng.integers(100, 900)))] * n) for n in (2, 6)]


def _inputs(rng: Generator) -> list[Case]:
    start = _late(rng)
    step = call("latency_metrics", start, [start + _every(int(rng.integers(100, 900)))])
    return [Case(step, unchanged(0))]


def _with_valid(valid: Case, *bad: Case) -> list[Case]:
    return [Case(*case.steps, *valid.steps) for case in bad]


def _empty(rng: Generator) -> list[Case]:
    return _with_valid(_case(0.0, [_every(int(rng.integers(100, 900)))]), _case(0.0, []), _case(_late(rng), []))


def _backwards(rng: Generator) -> list[Case]:
    """A last token earlier than the first, and a dip in the middle that leaves the ends in order."""
    at_end, inside = (_times(rng, 0.0, n, even=True) for n in (3, 6))
    at_end[-1] = at_end[0] - _every(1)
    inside[2] = inside[1] - _every(3)
    valid = _case(0.0, [_every(int(rng.integers(100, 900)))] * 3)
    return _with_valid(valid, _case(0.0, at_end), _case(0.0, inside))


def _early(rng: Generator) -> list[Case]:
    start = _late(rng)
    after, alone = _times(rng, start, 4), [start - _every(int(rng.integers(1, 900)))]
    after[0] = start - _every(int(rng.integers(1, 900)))
    return _with_valid(_case(0.0, [0.0]), _case(start, after), _case(start, alone))


EXERCISE = Exercise(
    "latency_metrics",
    _metrics(),
    groups=[
        Group("a clock that starts at the request", 0.5, "ttft, tpot, tps and e2e of tokens that come evenly", _even),
        Group("uneven tokens, a clock that runs already", 0.5, "times count from the request; tpot is a mean", _uneven),
        Group("one token", 0.5, "one token has no gap: tpot and tps are nan, ttft and e2e are not", _one),
        Group("all tokens at once", 0.5, "equal times are allowed: tpot is 0 and tps inf", _all_equal),
        Group("inputs", 0.25, "the list of times has to stay as it is", _inputs),
        Group("no tokens", 0.25, "no token raises ValueError", _empty),
        Group("times that run backwards", 0.25, "a token earlier than the one before it raises ValueError", _backwards),
        Group("a token before the request", 0.25, "it raises ValueError; one at the same moment does not", _early),
    ],
    mistakes=[
        Mistake(
            "gaps counted as tokens",
            "n tokens have n - 1 gaps: divide by those",
            _metrics(tpot=lambda r, ts: (ts[-1] - ts[0]) / len(ts)),
        ),
        Mistake(
            "the first wait as a gap",
            "the wait for the first token is not part of tpot",
            [
                _metrics(tpot=lambda r, ts: (ts[-1] - r) / len(ts)),
                _metrics(tpot=lambda r, ts: (ts[-1] - r) / (len(ts) - 1)),
                _metrics(
                    tpot=lambda r, ts: (ts[-1] - r) / len(ts), tpot_of_one=lambda t: t, tps_of_one=lambda t: 1 / t
                ),
            ],
        ),
        Mistake(
            "median",
            "tpot is the mean gap, not the median",
            _metrics(tpot=lambda r, ts: statistics.median(_gaps(ts))),
        ),
        Mistake(
            "one gap for all",
            "tpot is the mean of all gaps, not one of them",
            [
                _metrics(tpot=lambda r, ts: _gaps(ts)[0]),
                _metrics(tpot=lambda r, ts: _gaps(ts)[-1]),
                _metrics(tpot=lambda r, ts: max(_gaps(ts))),
            ],
        ),
        Mistake(
            "ttft on the clock",
            "ttft counts from the request, not from 0 on the clock",
            _metrics(ttft=lambda r, ts: ts[0]),
        ),
        Mistake(
            "e2e on the clock",
            "e2e counts from the request, not from 0 on the clock",
            _metrics(e2e=lambda r, ts, tpot: ts[-1]),
        ),
        Mistake(
            "e2e without ttft",
            "e2e begins at the request, not at the first token",
            _metrics(e2e=lambda r, ts, tpot: ts[-1] - ts[0]),
        ),
        Mistake(
            "one gap too many in e2e",
            "the first token is in ttft already: e2e is ttft and n - 1 gaps",
            [
                _metrics(e2e=lambda r, ts, tpot: ts[0] - r + len(ts) * tpot),
                _metrics(e2e=lambda r, ts, tpot: ts[0] - r + (len(ts) * tpot if len(ts) > 1 else 0)),
            ],
        ),
        Mistake(
            "tps over the whole request",
            "tps is 1 / tpot: the speed while tokens come, without the wait for the first one",
            [
                _metrics(tps=lambda r, ts, tpot: len(ts) / (ts[-1] - r)),
                _metrics(tps=lambda r, ts, tpot: len(ts) / (ts[-1] - r), tps_of_zero=lambda: math.nan),
            ],
        ),
        Mistake(
            "tps counts the first token",
            "n tokens come in n - 1 gaps: tps is 1 / tpot",
            _metrics(tps=lambda r, ts, tpot: len(ts) / (ts[-1] - ts[0])),
        ),
        Mistake(
            "one token without nan",
            "one token has no gap: tpot and tps are nan",
            [
                _metrics(tpot_of_one=lambda t: 0.0, tps_of_one=lambda t: math.inf),
                _metrics(tpot_of_one=lambda t: 0.0, tps_of_one=lambda t: 0.0),
                _metrics(tpot_of_one=lambda t: 0.0),
                _metrics(tps_of_one=lambda t: math.inf),
                _metrics(tps_of_one=lambda t: 0.0),
                _metrics(tpot_of_one=lambda t: _raise(ZeroDivisionError)),
                _metrics(tpot_of_one=lambda t: _raise(ValueError)),
                _metrics(tpot_of_one=lambda t: _raise(statistics.StatisticsError)),
            ],
        ),
        Mistake(
            "no gap between tokens",
            "when all tokens come at once tpot is 0 and tps inf",
            [
                _metrics(tps_of_zero=lambda: math.nan),
                _metrics(tps_of_zero=lambda: 0.0),
                _metrics(tps_of_zero=lambda: _raise(ZeroDivisionError)),
            ],
        ),
        Mistake(
            "equal times refused",
            "equal times are allowed",
            [
                _metrics(backwards=lambda ts: any(gap <= 0 for gap in _gaps(ts)), early=lambda r, ts: ts[0] <= r),
                _metrics(backwards=lambda ts: any(gap <= 0 for gap in _gaps(ts))),
                _metrics(early=lambda r, ts: ts[0] <= r),
            ],
        ),
        Mistake(
            "no tokens pass",
            "without a token there is nothing to measure: raise ValueError",
            [
                _metrics(empty=lambda: dict.fromkeys(("ttft", "tpot", "tps", "e2e"), math.nan)),
                _metrics(empty=lambda: dict.fromkeys(("ttft", "tpot", "tps", "e2e"), 0.0)),
                _metrics(empty=lambda: {}),
                _metrics(empty=lambda: _raise(IndexError)),
                _metrics(empty=lambda: _raise(ZeroDivisionError)),
            ],
        ),
        Mistake(
            "backwards passes",
            "times that run backwards have to raise ValueError",
            _metrics(backwards=lambda ts: False),
        ),
        Mistake(
            "ends compared only",
            "look at each pair of tokens in a row, not only at both ends",
            _metrics(backwards=lambda ts: ts[-1] < ts[0]),
        ),
        Mistake(
            "early token passes",
            "a first token before the request has to raise ValueError",
            _metrics(early=lambda r, ts: False),
        ),
        Mistake("milliseconds", "the result is in seconds", _metrics(factor=1000.0)),
    ],
    rtol=1e-6,
    atol=0.0,
)
