"""Held-out cases of temperature_probs. The oracle sums odds in float64, one pair of tokens at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.logit_draws import bad, distinct, tensor
from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Probs = Callable[[np.ndarray, float], np.ndarray]  # (logits, temperature) -> probabilities


def _softmax(values: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    def odds(gap: float) -> float:
        return math.exp(gap / temperature) if gap / temperature < 700 else math.inf

    return np.array([1 / sum(odds(other - mine) for other in values) for mine in values])


def _one_hot(values: np.ndarray, place: int) -> np.ndarray:
    return (np.arange(len(values)) == place).astype(float)


def _first(values: np.ndarray) -> np.ndarray:
    return _one_hot(values, values.tolist().index(max(values.tolist())))


def _probs(
    above: Probs = _softmax,
    zero: Callable[[np.ndarray], Any] = _first,
    negative: type[Exception] | None = ValueError,
    in_place: Callable[[np.ndarray, float], np.ndarray] | None = None,
) -> dict[str, Any]:
    """above, zero: what temperatures above 0 and 0 give; negative: the error below 0, None goes on with `above`."""

    def temperature_probs(logits: torch.Tensor, temperature: float) -> Any:
        values = logits.double().numpy()
        if temperature < 0:
            return bad(negative, lambda: above(values, temperature))
        out = zero(values) if temperature == 0 else above(values, temperature)
        if in_place and temperature > 0:
            logits.copy_(torch.from_numpy(in_place(values, temperature)))
        return out

    return {"temperature_probs": temperature_probs}


def _raising(error: type[Exception]) -> Callable[[np.ndarray], Any]:
    def zero(values: np.ndarray) -> Any:
        raise error

    return zero


def _overflowing(values: np.ndarray, temperature: float) -> np.ndarray:
    """exp of what is there, without the maximum taken out first."""
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(values / temperature)
        return powers / powers.sum()


def _overflowing_single(values: np.ndarray, temperature: float) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp((values / temperature).astype(np.float32))
        return powers / powers.sum()


def _overflow_raised(values: np.ndarray, temperature: float) -> np.ndarray:
    powers = [math.exp(value / temperature) for value in values]
    return np.array(powers) / sum(powers)


def _shared(values: np.ndarray) -> np.ndarray:
    """Tied maxima share, as the limit of ever smaller temperatures has it."""
    tied = values == values.max()
    return tied / tied.sum()


def _case(values: Any, temperature: float) -> Case:
    return Case(call("temperature_probs", tensor(values), temperature))


def _as_it_is(rng: Generator) -> list[Case]:
    return [_case(distinct(rng, n), 1.0) for n in (1, 4, 9)]


def _warm(rng: Generator) -> list[Case]:
    cases = [_case(distinct(rng, n), float(rng.uniform(1.4, 3))) for n in (3, 6, 12)]
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _cold(rng: Generator) -> list[Case]:
    return [_case(distinct(rng, n), float(rng.uniform(0.3, 0.7))) for n in (3, 6, 12)]


def _very_cold(rng: Generator) -> list[Case]:
    """Two tokens close together, so that the result is no plain one-hot, far above 0 and far below."""
    cases = []
    for top in (9.0, 7.5):
        temperature = float(rng.uniform(0.004, 0.006))
        values = np.array([-top, top, top - temperature * rng.uniform(0.5, 2), 0.0])
        cases.append(Case(call("temperature_probs", tensor(rng.permutation(values), np.float64), temperature)))
    return cases


def _zero(rng: Generator) -> list[Case]:
    return [_case(distinct(rng, n), zero) for n, zero in ((2, 0.0), (5, 0), (11, 0.0))]


def _tied(rng: Generator) -> list[Case]:
    cases = []
    for n, tied in ((4, 2), (9, 3)):
        values = np.sort(distinct(rng, n))[::-1].copy()
        values[:tied] = values[0]
        cases.append(_case(rng.permutation(values), 0.0))
    return cases


def _negative(rng: Generator) -> list[Case]:
    good = _case(distinct(rng, 4), 1.0).steps
    return [Case(*_case(distinct(rng, 4), number).steps, *good) for number in (-1.0, -float(rng.uniform(0.1, 3)))]


EXERCISE = Exercise(
    "temperature_probs",
    _probs(),
    groups=[
        Group("temperature 1", 0.25, "temperature 1 is the softmax of the logits", _as_it_is),
        Group("warm", 0.5, "logits are divided by the temperature, and stay unchanged themselves", _warm),
        Group("cold", 0.25, "a temperature below 1 makes the likely tokens likelier", _cold),
        Group("very cold", 0.25, "a small temperature must not overflow", _very_cold),
        Group("temperature 0", 0.25, "temperature 0 gives the largest logit probability 1, the others 0", _zero),
        Group("temperature 0 with ties", 0.25, "the first of tied maxima gets probability 1", _tied),
        Group("negative", 0.25, "a negative temperature raises ValueError", _negative),
    ],
    mistakes=[
        Mistake(
            "multiplied",
            "logits are divided by the temperature, not multiplied by it",
            [
                _probs(lambda values, t: _softmax(values, 1 / t)),
                _probs(lambda values, t: _softmax(values, 1 / t), negative=None),
            ],
        ),
        Mistake("temperature ignored", "the temperature changes nothing", _probs(lambda values, t: _softmax(values))),
        Mistake(
            "probabilities divided",
            "the temperature divides the logits, before softmax: divided probabilities do not sum to 1",
            _probs(lambda values, t: _softmax(values) / t),
        ),
        Mistake(
            "square root", "logits are divided by the temperature itself", _probs(lambda v, t: _softmax(v, t**0.5))
        ),
        Mistake("square", "logits are divided by the temperature itself", _probs(lambda v, t: _softmax(v, t * t))),
        Mistake(
            "overflow",
            "exp overflows at small temperatures: subtract the maximum first",
            [_probs(_overflowing), _probs(_overflowing_single), _probs(_overflow_raised)],
        ),
        Mistake(
            "divided by zero",
            "temperature 0 needs a case of its own: dividing by 0 gives nan",
            [_probs(zero=lambda values: np.full(len(values), np.nan)), _probs(zero=_raising(ZeroDivisionError))],
        ),
        Mistake(
            "temperature 0 refused",
            "temperature 0 is allowed: it is greedy decoding",
            _probs(zero=_raising(ValueError)),
        ),
        Mistake("ties share", "at temperature 0 the first of tied maxima gets everything", _probs(zero=_shared)),
        Mistake(
            "all ties 1",
            "at temperature 0 one token has probability 1, also where several are tied",
            _probs(zero=lambda values: (values == values.max()).astype(float)),
        ),
        Mistake(
            "last of the ties",
            "at temperature 0 the first of tied maxima counts",
            _probs(zero=lambda values: _one_hot(values, len(values) - 1 - int(values[::-1].argmax()))),
        ),
        Mistake(
            "index at temperature 0",
            "at temperature 0 too probabilities come back, not the id of a token",
            _probs(zero=lambda values: int(values.argmax())),
        ),
        Mistake(
            "temperature 0 as 1",
            "temperature 0 gives the largest logit probability 1",
            _probs(zero=lambda values: _softmax(values)),
        ),
        Mistake(
            "no softmax",
            "probabilities are asked for: softmax is missing",
            [_probs(lambda v, t: v / t), _probs(lambda v, t: np.log(_softmax(v, t) + 1e-300))],
        ),
        Mistake(
            "input changed",
            "the logits passed in have to stay as they are",
            [_probs(in_place=change) for change in (lambda v, t: v / t, lambda v, t: v - v.max(), _softmax)]
            + [_probs(in_place=lambda v, t: (v - v.max()) / t), _probs(in_place=lambda v, t: v / t - (v / t).max())],
        ),
        Mistake(
            "negative passes",
            "a negative temperature has to raise ValueError",
            [_probs(negative=None), _probs(negative=None, above=lambda v, t: _first(v) if t < 0 else _softmax(v, t))],
        ),
    ],
)
