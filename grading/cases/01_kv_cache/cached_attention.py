"""Held-out cases of cached_attention. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged


def _attention(
    scale: Callable[[int], float] = lambda d: 1 / math.sqrt(d),
    last: Callable[[int, int, int], int] = lambda i, n_q, n_k: n_k - n_q + i,
    axis: int = -1,
    safe: bool = True,
    hidden: float = -math.inf,
    in_place: bool = False,
    refuses: bool = True,
    masked_after: bool = False,
    softmax: bool = True,
    everything: bool = False,
    maximum_first: bool = False,
) -> dict[str, Any]:
    """Attention in float64, with the ways to get it wrong as arguments. `last` is the last key that query i sees."""

    def cached_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        n_q, n_k, d = q.shape[1], k.shape[1], q.shape[2]
        if refuses and n_q > n_k:
            raise ValueError
        if in_place:
            q *= scale(d)
        scored = np.einsum("hid,hjd->hij", q, k) * (1.0 if in_place else scale(d))
        sees = np.array([[j <= last(i, n_q, n_k) for j in range(n_k)] for i in range(n_q)])
        if not softmax:
            return np.einsum("hij,hjd->hid", np.where(sees, scored, 0.0), v)
        if maximum_first:
            scored = scored - scored.max(axis=axis, keepdims=True)
        if not masked_after:
            scored = np.where(sees, scored, hidden)
        with np.errstate(all="ignore"):
            if safe and not maximum_first:
                scored = scored - scored.max(axis=axis, keepdims=True)
            weights = np.exp(scored.astype(np.float64))
            weights = weights / (weights.sum() if everything else weights.sum(axis=axis, keepdims=True))
            if masked_after:
                weights = weights * sees
            return np.einsum("hij,hjd->hid", weights, v)

    return {"cached_attention": cached_attention}


def _qkv(rng: Generator, heads: int, n_q: int, n_k: int, d: int) -> Case:
    shapes = ((heads, n_q, d), (heads, n_k, d), (heads, n_k, d))
    return Case(call("cached_attention", *(rng.normal(size=shape) for shape in shapes)))


def _keys(rng: Generator, heads: int, n: int) -> np.ndarray:
    """Keys at right angles, so that a query can be close to one of them alone."""
    return np.stack([np.linalg.qr(rng.normal(size=(8, 8)))[0][:n] for _ in range(heads)]) * math.sqrt(8)


def _large(rng: Generator) -> list[Case]:
    """Each query is far closer to its own key than to any other, so it gets its own value whatever else it sees."""
    cases = []
    for n in (4, 7):
        keys = _keys(rng, 1, n)
        cases.append(Case(call("cached_attention", 1000.0 * keys, keys, rng.normal(size=(1, n, 8)))))
    return cases


def _large_hidden(rng: Generator) -> list[Case]:
    """The scores of hidden keys are far larger than the visible ones, of which a query's own is the largest."""
    cases = []
    for n in (4, 7):
        keys = _keys(rng, 2, n)
        weights = np.tril(np.full((n, n), -2000.0), -1) - 1000.0 * np.eye(n)
        cases.append(Case(call("cached_attention", weights @ keys, keys, rng.normal(size=(2, n, 8)))))
    return cases


def _inputs(rng: Generator) -> list[Case]:
    case = _qkv(rng, 1, 1, 1, 8)
    return [Case(*case.steps, unchanged(0))]


def _too_many(rng: Generator) -> list[Case]:
    return [
        Case(*_qkv(rng, 2, n_q, n_k, 4).steps, *_qkv(rng, 1, 1, 1, 4).steps) for n_q, n_k in ((5, 4), (3, 1), (2, 1))
    ]


EXERCISE = Exercise(
    "cached_attention",
    _attention(),
    groups=[
        Group(
            "one position",
            0.5,
            "a position alone gets its own value",
            lambda rng: [_qkv(rng, 1, 1, 1, d) for d in (4, 16)],
        ),
        Group("decode", 0.5, "one query sees every key", lambda rng: [_qkv(rng, 1, 1, n, 16) for n in (2, 9, 40)]),
        Group(
            "prefill",
            0.5,
            "as many queries as keys: each sees itself and what comes before",
            lambda rng: [_qkv(rng, 3, n, n, 16) for n in (2, 9, 33)],
        ),
        Group(
            "chunk",
            0.5,
            "query i is position n_k - n_q + i",
            lambda rng: [_qkv(rng, 2, n_q, n_k, 16) for n_q, n_k in ((2, 3), (3, 11), (7, 30))],
        ),
        Group("large scores", 0.5, "exp overflows: subtract the largest visible score of each row first", _large),
        Group("large hidden scores", 0.5, "a hidden key has no part, however large its score", _large_hidden),
        Group("inputs", 0.5, "the inputs have to stay as they are", _inputs),
        Group("more queries than keys", 0.5, "n_q > n_k raises ValueError", _too_many),
    ],
    mistakes=[
        Mistake("unscaled", "the scores are not divided by sqrt(d)", _attention(scale=lambda d: 1.0)),
        Mistake(
            "scaled by the width", "the scores are divided by d, not by its root", _attention(scale=lambda d: 1 / d)
        ),
        Mistake(
            "scaled for one width",
            "the scale has to follow the head width of the input",
            _attention(scale=lambda d: 1 / math.sqrt(8)),
        ),
        Mistake(
            "mask top left",
            "the triangle sits top left; it has to be shifted by n_k - n_q",
            _attention(last=lambda i, n_q, n_k: i),
        ),
        Mistake("no mask", "queries see later keys", _attention(last=lambda i, n_q, n_k: n_k)),
        Mistake(
            "hides itself",
            "a position has to see itself",
            _attention(last=lambda i, n_q, n_k: max(0, n_k - n_q + i - 1)),
        ),
        Mistake(
            "softmax over queries", "the softmax runs over the keys, the last axis of the scores", _attention(axis=1)
        ),
        Mistake("overflow", "exp overflows: subtract the largest score of each row first", _attention(safe=False)),
        Mistake("hidden by zero", "a hidden score is minus infinity, not 0", _attention(hidden=0.0)),
        Mistake(
            "masked after softmax",
            "mask first, then softmax: the weights of a query add up to 1",
            _attention(masked_after=True),
        ),
        Mistake(
            "maximum before the mask",
            "subtract the largest visible score: mask first, then take the maximum",
            _attention(maximum_first=True),
        ),
        Mistake(
            "mask too small",
            "a hidden score has to lie below any visible one: minus infinity",
            [_attention(hidden=-1e3), _attention(hidden=-1e2)],
        ),
        Mistake("no softmax", "the scores are used as weights: softmax is missing", _attention(softmax=False)),
        Mistake(
            "one softmax for everything",
            "each query has a softmax of its own, over its keys",
            _attention(everything=True),
        ),
        Mistake("inputs changed", "q was changed in place", _attention(in_place=True)),
        Mistake("too many queries pass", "more queries than keys have to raise ValueError", _attention(refuses=False)),
    ],
)
