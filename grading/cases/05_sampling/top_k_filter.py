"""Held-out cases of top_k_filter. The oracle counts, for each token, how many are larger."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.logit_draws import bad, distinct, keeping, softmax, tensor
from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Keeps = Callable[[np.ndarray, int], Any]


def _few_larger(values: np.ndarray, k: int) -> list[bool]:
    """A token stays when fewer than k are larger: ties of the k-th stay, and a k beyond V keeps all."""
    return [sum(other > value for other in values) < k for value in values]


def _filter(
    keeps: Keeps = _few_larger,
    removed: float = -math.inf,
    result: Callable[[np.ndarray], Any] = lambda out: out,
    zero: type[Exception] | None = ValueError,
    negative: type[Exception] | None = ValueError,
    below: Keeps = lambda values, k: np.zeros(len(values), dtype=bool),
    too_many: type[Exception] | None = None,
    in_place: bool = False,
) -> dict[str, Any]:
    """zero, negative: the error for such a k, None goes on with `below`; too_many: the error for k > V."""

    def top_k_filter(logits: torch.Tensor, k: int) -> Any:
        if k < 1:
            return bad(zero if k == 0 else negative, lambda: keeping(logits, lambda values: below(values, k)))
        if k > len(logits) and too_many:
            raise too_many
        out = keeping(logits, lambda values: keeps(values, k), removed)
        if in_place:
            logits.copy_(torch.from_numpy(out))
        return result(out)

    return {"top_k_filter": top_k_filter}


def _first_of_ties(values: np.ndarray, k: int) -> np.ndarray:
    """Exactly k tokens, of tied ones those with the smallest ids."""
    return np.isin(np.arange(len(values)), np.argsort(-values, kind="stable")[:k])


def _last_of_ties(values: np.ndarray, k: int) -> np.ndarray:
    return _first_of_ties(values[::-1], k)[::-1]


def _different_values(values: np.ndarray, k: int) -> np.ndarray:
    kinds = sorted(set(values.tolist()), reverse=True)
    return values >= kinds[min(k, len(kinds)) - 1]


def _by_torch(values: np.ndarray, k: int) -> np.ndarray:
    """topk(k).indices: which of the tied ones stay is torch's choice."""
    chosen = torch.from_numpy(values).topk(min(k, len(values))).indices.numpy()
    return np.isin(np.arange(len(values)), chosen)


def _unguarded() -> list[dict[str, Any]]:
    """Ways to go on with a k below 1."""
    rows: list[Keeps] = [
        lambda values, k: np.zeros(len(values), dtype=bool),
        lambda values, k: np.ones(len(values), dtype=bool),
        lambda values, k: values >= np.sort(values)[::-1][max(k - 1, -len(values))],
        lambda values, k: _few_larger(values, 1),
    ]
    errors = (ValueError, None, RuntimeError, IndexError)
    return [
        _filter(zero=zero, negative=negative, below=below)
        for zero in errors
        for negative in errors
        for below in rows
        if None in (zero, negative) or (below is rows[0] and (zero, negative) != (ValueError, ValueError))
    ]


def _case(values: Any, k: int) -> Case:
    return Case(call("top_k_filter", tensor(values), int(k)))


def _inside(rng: Generator) -> list[Case]:
    sizes = ((5, 2), (9, 4), (12, 11), (30, 7), (7, 7))
    return [_case(distinct(rng, n), k) for n, k in sizes]


def _only_one(rng: Generator) -> list[Case]:
    cases = [_case(distinct(rng, n), 1) for n in (3, 8)]
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _ties(rng: Generator) -> list[Case]:
    """Three tokens tied at the edge, two tied above it."""
    cases = []
    for n, above in ((6, 1), (9, 3)):
        values = np.sort(distinct(rng, n))[::-1].copy()
        values[above : above + 3] = values[above]
        cases.append(_case(rng.permutation(values), above + 1 + int(rng.integers(2))))
    values = np.sort(distinct(rng, 7))[::-1].copy()
    values[1] = values[0]
    return [*cases, _case(rng.permutation(values), 3)]


def _beyond(rng: Generator) -> list[Case]:
    return [_case(distinct(rng, n), n + more) for n, more in ((4, 2), (6, 40))]


def _single(rng: Generator) -> list[Case]:
    return [_case(rng.normal(size=1), 1)]


def _refused(rng: Generator, negative: bool) -> list[Case]:
    ks = [-int(k) for k in rng.integers(1, 5, 2)] if negative else [0]
    return [Case(*_case(distinct(rng, 5), k).steps, *_single(rng)[0].steps) for k in ks]


EXERCISE = Exercise(
    "top_k_filter",
    _filter(),
    groups=[
        Group("k tokens", 0.5, "the k largest stay in their places, the others get minus infinity", _inside),
        Group("one token", 0.25, "k = 1 keeps the largest, and the logits passed in stay as they are", _only_one),
        Group("ties", 0.25, "all tokens tied with the k-th largest stay", _ties),
        Group("k beyond the vocabulary", 0.25, "k > V keeps all tokens", _beyond),
        Group("a vocabulary of one", 0.25, "the only token stays", _single),
        Group("k = 0", 0.25, "k = 0 raises ValueError", lambda rng: _refused(rng, False)),
        Group("negative k", 0.25, "a negative k raises ValueError", lambda rng: _refused(rng, True)),
    ],
    mistakes=[
        Mistake(
            "ties cut",
            "all tokens tied with the k-th largest stay, not only as many as make k",
            [_filter(_first_of_ties), _filter(_last_of_ties), _filter(_by_torch)],
        ),
        Mistake("different values", "k counts tokens, not different values", _filter(_different_values)),
        Mistake(
            "k-th removed",
            "the k-th largest belongs to the kept ones: compare with >=, not with >",
            _filter(lambda values, k: values > np.sort(values)[::-1][min(k, len(values)) - 1]),
        ),
        Mistake(
            "one too few",
            "k tokens stay, not k - 1",
            [
                _filter(lambda values, k: _few_larger(values, max(min(k, len(values)) - 1, 1))),
                _filter(lambda values, k: _few_larger(values, max(k - 1, 1))),
                _filter(lambda values, k: _few_larger(values, k - 1)),
                _filter(lambda values, k: _few_larger(values, min(k, len(values)) - 1)),
            ],
        ),
        Mistake(
            "one too many",
            "k tokens stay, not k + 1: counting from 0 the k-th is number k - 1",
            [_filter(lambda values, k: _few_larger(values, k + 1))],
        ),
        Mistake("smallest kept", "the largest logits stay, not the smallest", _filter(lambda v, k: _few_larger(-v, k))),
        Mistake(
            "removed is a number",
            "a removed token gets minus infinity: any number leaves it a probability",
            [_filter(removed=number) for number in (0.0, -1e4, -1e9, -1e10, float(np.finfo(np.float32).min))],
        ),
        Mistake(
            "probabilities",
            "a filter returns logits, not probabilities",
            [_filter(result=lambda out: softmax(out)), _filter(result=lambda out: np.log(softmax(out) + 1e-300))],
        ),
        Mistake(
            "not in their places",
            "the result has one entry per token of the vocabulary, each in its place",
            [
                _filter(result=lambda out: out[out > -math.inf]),
                _filter(result=lambda out: np.sort(out)[::-1]),
                _filter(result=lambda out: np.sort(out[out > -math.inf])[::-1]),
            ],
        ),
        Mistake(
            "k beyond V refused",
            "a k larger than the vocabulary keeps all tokens and is no error",
            [_filter(too_many=error) for error in (ValueError, RuntimeError, IndexError)],
        ),
        Mistake("input changed", "the logits passed in have to stay as they are", _filter(in_place=True)),
        Mistake("k below 1 passes", "a k of 0 or less has to raise ValueError", _unguarded()),
    ],
)
