"""Held-out cases of min_p_filter. The oracle compares probabilities one by one, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.logit_draws import bad, distinct, keeping, softmax, tensor
from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Keeps = Callable[[np.ndarray, float], Any]  # (logits, min_p) -> which tokens stay
EDGE = 2e-3  # no probability of a case lies closer to its limit


def _share(values: np.ndarray, min_p: float) -> list[bool]:
    probs = softmax(values)
    return [
        prob >= min_p * max(probs) * (1 - 1e-9) for prob in probs
    ]  # equal logits stay equal, whatever rounding does


def _filter(
    keeps: Keeps = _share,
    removed: float = -math.inf,
    result: Callable[[np.ndarray], Any] = lambda out: out,
    below: type[Exception] | None = ValueError,
    above: type[Exception] | None = ValueError,
    zero: type[Exception] | None = None,
    in_place: bool = False,
) -> dict[str, Any]:
    """below, above: the error for a min_p below 0 or above 1, None goes on; zero: an error for 0."""

    def min_p_filter(logits: torch.Tensor, min_p: float) -> Any:
        if min_p < 0 or min_p > 1:
            return bad(below if min_p < 0 else above, lambda: keeping(logits, lambda values: keeps(values, min_p)))
        if min_p == 0 and zero:
            raise zero
        out = keeping(logits, lambda values: keeps(values, min_p), removed)
        if in_place:
            logits.copy_(torch.from_numpy(out))
        return result(out)

    return {"min_p_filter": min_p_filter}


def _first_maximum(values: np.ndarray, min_p: float) -> list[bool]:
    kept = _share(values, min_p)
    return [i == values.argmax() for i in range(len(values))] if min_p == 1 else kept


def _case(values: Any, min_p: float) -> Case:
    return Case(call("min_p_filter", tensor(values), float(min_p)))


def _drawn(rng: Generator, n: int, few: bool = False) -> Case:
    """A min_p whose limit lies between two probabilities; `few`: only the largest stays, though others come near."""
    while True:
        values = distinct(rng, n)
        probs = np.sort(softmax(values))[::-1]
        number = 1 if few else int(rng.integers(2, n))
        gap = probs[number - 1] - probs[number]
        if gap > 2 * EDGE:
            limit = probs[number] + gap * rng.uniform(0.4, 0.6)
            return _case(values, limit / probs[0])


def _inside(rng: Generator) -> list[Case]:
    return [_drawn(rng, n) for n in (5, 6, 8, 12)] + [_drawn(rng, 6, few=True)]


def _untouched(rng: Generator) -> list[Case]:
    """Two tokens, a large and a small one: most limits give the same."""
    return [Case(*_case([-2.5, 2.5 + rng.uniform()], 0.5).steps, unchanged(0))]


def _all(rng: Generator) -> list[Case]:
    return [_case(distinct(rng, n), 0.0) for n in (4, 6)]


def _maxima(rng: Generator) -> list[Case]:
    cases = []
    for n, tied in ((5, 2), (8, 3)):
        values = np.sort(distinct(rng, n))[::-1].copy()
        values[:tied] = values[0]
        cases.append(_case(rng.permutation(values), 1.0))
    return cases


def _single(rng: Generator) -> list[Case]:
    return [_case(rng.normal(size=1), rng.uniform(0.2, 0.8))]


def _refused(rng: Generator, sign: int) -> list[Case]:
    numbers = [-rng.uniform(0.05, 0.9), -2.0] if sign < 0 else [1 + rng.uniform(0.05, 0.9), 5.0]
    return [Case(*_case(distinct(rng, 5), number).steps, *_single(rng)[0].steps) for number in numbers]


EXERCISE = Exercise(
    "min_p_filter",
    _filter(),
    groups=[
        Group("inside", 0.25, "a token stays when its probability is at least min_p times the largest", _inside),
        Group("inputs", 0.125, "the logits passed in stay as they are", _untouched),
        Group("min_p = 0", 0.125, "min_p = 0 keeps all tokens", _all),
        Group("min_p = 1", 0.125, "min_p = 1 keeps the most likely token and all tied with it", _maxima),
        Group("a vocabulary of one", 0.125, "the only token stays", _single),
        Group("below 0", 0.125, "a min_p below 0 raises ValueError", lambda rng: _refused(rng, -1)),
        Group("above 1", 0.125, "a min_p above 1 raises ValueError", lambda rng: _refused(rng, 1)),
    ],
    mistakes=[
        Mistake(
            "limit not scaled",
            "min_p is a share of the largest probability, not a probability",
            _filter(lambda values, min_p: softmax(values) >= min_p),
        ),
        Mistake(
            "logits compared",
            "probabilities are compared, not logits",
            [
                _filter(lambda values, min_p: values >= min_p * values.max()),
                _filter(lambda values, min_p: values >= min_p),
            ],
        ),
        Mistake(
            "limit removed",
            "at least means >=: a token that is exactly as likely as the limit stays",
            _filter(lambda values, min_p: softmax(values) > min_p * softmax(values).max() * (1 + 1e-9)),
        ),
        Mistake("first maximum only", "with min_p = 1 all tied maxima stay", _filter(_first_maximum)),
        Mistake(
            "1 - min_p",
            "the limit is min_p times the largest probability, not 1 - min_p times",
            _filter(lambda values, min_p: _share(values, 1 - min_p)),
        ),
        Mistake(
            "unlikely kept",
            "the likely tokens stay, the unlikely ones go",
            _filter(lambda values, min_p: softmax(values) <= min_p * softmax(values).max()),
        ),
        Mistake(
            "share of the mean",
            "the limit is a share of the largest probability, not of the mean",
            _filter(lambda values, min_p: softmax(values) >= min_p / len(values)),
        ),
        Mistake(
            "share of the second",
            "the limit is a share of the largest probability",
            _filter(lambda values, min_p: softmax(values) >= min_p * np.sort(softmax(values))[-2:][0]),
        ),
        Mistake(
            "min_p = 0 refused",
            "min_p = 0 keeps all tokens and is no error",
            [_filter(zero=error) for error in (ValueError, ZeroDivisionError)],
        ),
        Mistake(
            "removed is a number",
            "a removed token gets minus infinity: any number leaves it a probability",
            [_filter(removed=number) for number in (0.0, -1e4, -1e9, -1e10, float(np.finfo(np.float32).min))],
        ),
        Mistake(
            "probabilities",
            "a filter returns logits, not probabilities",
            [
                _filter(result=lambda out: softmax(out)),
                {"min_p_filter": lambda logits, min_p: _probs_kept(logits, min_p)},
            ],
        ),
        Mistake("input changed", "the logits passed in have to stay as they are", _filter(in_place=True)),
        Mistake(
            "outside passes",
            "a min_p below 0 or above 1 has to raise ValueError",
            [
                _filter(below=below, above=above)
                for below in (None, ValueError, RuntimeError)
                for above in (None, ValueError, RuntimeError)
                if not below or not above
            ],
        ),
    ],
)


def _probs_kept(logits: torch.Tensor, min_p: float) -> np.ndarray:
    """Probabilities where a token stays, 0 elsewhere, not scaled again."""
    if not 0 <= min_p <= 1:
        raise ValueError
    values = logits.double().numpy()
    return np.where(_share(values, min_p), softmax(values), 0.0)
