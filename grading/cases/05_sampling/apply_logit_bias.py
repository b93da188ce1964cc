"""Held-out cases of apply_logit_bias. The oracle adds token by token, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.logit_draws import bad, distinct, softmax, tensor
from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Rule = Callable[[float, float], float]  # (logit, number) -> logit


def _apply(
    rule: Rule = lambda logit, number: logit + number,
    named: Callable[[Mapping[int, float]], Mapping[int, float]] = lambda bias: bias,
    below: type[Exception] | None = ValueError,
    beyond: type[Exception] | None = ValueError,
    result: Callable[[np.ndarray], Any] = lambda out: out,
    empty: type[Exception] | None = None,
    read: Callable[[Mapping[int, float]], Mapping[int, float]] = lambda bias: bias,
    in_place: bool = False,
) -> dict[str, Any]:
    """below, beyond: the error for such ids; None counts them from the end, or passes them over.

    named: the ids that get a number; read: the part of the dict that is looked at at all.
    """

    def apply_logit_bias(logits: torch.Tensor, bias: Mapping[int, float]) -> Any:
        out, bias = logits.double().numpy().copy(), read(bias)
        if not bias and empty:
            raise empty
        if any(i < 0 for i in bias):
            bad(below, lambda: None)
        if any(i >= len(out) for i in bias):
            bad(beyond, lambda: None)
        for token, number in named(bias).items():
            if token < len(out):
                out[token] = rule(float(out[token]), number)
        if in_place:
            logits.copy_(torch.from_numpy(out))
        return result(out)

    return {"apply_logit_bias": apply_logit_bias}


def _case(values: Any, bias: Mapping[int, float]) -> Case:
    return Case(call("apply_logit_bias", tensor(values), bias))


def _numbers(rng: Generator, n: int, number: int) -> dict[int, float]:
    """Distinct ids, the last one among them, with numbers of both signs, none near 0 or 1."""
    ids = [n - 1, *rng.choice(n - 1, number - 1, replace=False).tolist()]
    sizes = rng.uniform(1.5, 6, number) * rng.choice([-1, 1], number)
    return {int(i): float(size) for i, size in zip(rng.permutation(ids), sizes, strict=True)}


def _one(rng: Generator) -> list[Case]:
    cases = [_case(distinct(rng, n), _numbers(rng, n, 1)) for n in (1, 4, 9)]
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _several(rng: Generator) -> list[Case]:
    return [_case(distinct(rng, n), _numbers(rng, n, number)) for n, number in ((4, 2), (7, 3), (12, 5))]


def _empty(rng: Generator) -> list[Case]:
    return [_case(distinct(rng, n), {}) for n in (3, 6)]


def _large(rng: Generator) -> list[Case]:
    sizes = (-100.0, float(rng.uniform(120, 200)), -float(rng.uniform(120, 200)))
    return [_case(distinct(rng, 6), {int(rng.integers(6)): size}) for size in sizes]


def _refused(rng: Generator, wrong: int) -> list[Case]:
    good = _empty(rng)[0].steps
    biases: list[dict[int, float]] = [{wrong: 2.5}, {1: 1.5, wrong: -2.0}]
    return [Case(*_case(distinct(rng, 5), bias).steps, *good) for bias in biases]


EXERCISE = Exercise(
    "apply_logit_bias",
    _apply(),
    groups=[
        Group("one token", 0.125, "the number is added to the logit of its token; inputs stay as they are", _one),
        Group("several tokens", 0.25, "each token named gets its own number", _several),
        Group("no bias", 0.125, "an empty dict changes nothing", _empty),
        Group("large numbers", 0.25, "large numbers are added as they are, -100 too", _large),
        Group("negative ids", 0.125, "an id below 0 raises ValueError", lambda r: _refused(r, -int(r.integers(1, 5)))),
        Group(
            "ids beyond", 0.125, "an id not below V raises ValueError", lambda r: _refused(r, 5 + int(r.integers(3)))
        ),
    ],
    mistakes=[
        Mistake(
            "replaced", "the number is added to the logit, it does not replace it", _apply(lambda x, number: number)
        ),
        Mistake("multiplied", "the number is added to the logit, not multiplied", _apply(lambda x, number: x * number)),
        Mistake("subtracted", "the number is added to the logit, not subtracted", _apply(lambda x, number: x - number)),
        Mistake(
            "minus infinity",
            "-100 is added as it is: the token is practically impossible, its logit not minus infinity",
            [
                _apply(lambda x, number: -math.inf if number <= -100 else x + number),
                _apply(lambda x, number: -math.inf if number == -100 else x + number),
                _apply(lambda x, number: math.copysign(math.inf, number) if abs(number) >= 100 else x + number),
            ],
        ),
        Mistake(
            "cut at 100",
            "numbers are added as they are: limits are the business of an API",
            _apply(lambda x, number: x + max(-100.0, min(100.0, number))),
        ),
        Mistake(
            "logarithm",
            "the number itself is added, not its logarithm or exponential",
            [
                _apply(lambda x, number: x + math.copysign(math.log(abs(number)), number)),
                _apply(lambda x, number: x + math.exp(number)),
                _apply(lambda x, number: x + (math.exp(number) if number < 88 else math.inf)),  # in float32
            ],
        ),
        Mistake(
            "one token only",
            "every token of the dict gets its number",
            [
                _apply(named=lambda bias: dict(list(bias.items())[:1])),
                _apply(named=lambda bias: dict(list(bias.items())[-1:])),
                _apply(read=lambda bias: dict(list(bias.items())[:1])),
            ],
        ),
        Mistake(
            "numbers mixed up",
            "each token gets its own number",
            [
                _apply(named=lambda bias: dict(zip(sorted(bias), bias.values(), strict=True))),
                _apply(named=lambda bias: dict.fromkeys(bias, sum(bias.values()))),
                _apply(named=lambda bias: dict.fromkeys(bias, list(bias.values())[-1]) if bias else {}),
            ],
        ),
        Mistake(
            "counted from 1",
            "ids count from 0",
            _apply(named=lambda bias: {i - 1: number for i, number in bias.items()}),
        ),
        Mistake("probabilities", "logits come back, not probabilities", _apply(result=lambda out: softmax(out))),
        Mistake(
            "no bias refused",
            "an empty dict changes nothing and is no error",
            [_apply(empty=error) for error in (ValueError, IndexError, RuntimeError, TypeError)],
        ),
        Mistake("input changed", "the logits passed in have to stay as they are", _apply(in_place=True)),
        Mistake(
            "ids unchecked",
            "ids below 0, or not below V, have to raise ValueError: Python counts negative ones from the end",
            [
                _apply(below=below, beyond=beyond)
                for below in (None, ValueError, IndexError)
                for beyond in (None, ValueError, IndexError, RuntimeError)
                if below is not ValueError or beyond is not ValueError
            ],
        ),
    ],
)
