"""Held-out cases of grouped_query_attention. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged


def _attention(
    scale: Callable[[int], float] = lambda d: 1 / math.sqrt(d),
    last: Callable[[int, int, int], int] = lambda i, n_q, n_k: n_k - n_q + i,
    k_head: Callable[[int, int, int], int] = lambda h, n_heads, n_kv: h * n_kv // n_heads,
    v_head: Callable[[int, int, int], int] | None = None,
    out_head: Callable[[int, int, int], int] = lambda h, n_heads, n_kv: h,
    sequence: Callable[[int], int] = lambda b: b,
    hidden: float = -math.inf,
    masked_after: bool = False,
    axis: int = -1,
    softmax: bool = True,
    in_place: bool = False,
    refuses: Callable[[int, int, int, int], bool] = lambda n_heads, n_kv, n_q, n_k: n_heads % n_kv > 0 or n_q > n_k,
) -> dict[str, Any]:
    """Attention head by head in float64, with the ways to get it wrong as arguments.

    `last` is the last key that query i sees, `k_head` and `v_head` are the heads that query head h reads, and `out_head`
    is where its result goes.
    """

    def one_head(q: np.ndarray, k: np.ndarray, v: np.ndarray, factor: float) -> np.ndarray:
        n_q, n_k = len(q), len(k)
        sees = np.array([[j <= last(i, n_q, n_k) for j in range(n_k)] for i in range(n_q)])
        scored = q @ k.T * factor
        if not softmax:
            return np.where(sees, scored, 0.0) @ v
        scored = scored if masked_after else np.where(sees, scored, hidden)
        weights = np.exp(scored)
        with np.errstate(invalid="ignore"):  # a query that sees no key
            weights = weights / weights.sum(axis=axis, keepdims=True)
        return np.where(sees, weights, 0.0 if masked_after else weights) @ v

    def grouped_query_attention(q: Any, k: Any, v: Any) -> np.ndarray:
        n_heads, n_kv = q.shape[1], k.shape[1]
        if refuses(n_heads, n_kv, q.shape[2], k.shape[2]):
            raise ValueError
        factor = scale(q.shape[3])
        if in_place:
            q *= factor
            factor = 1.0
        qs, ks, vs = (x.double().numpy() for x in (q, k, v))
        out = np.zeros(qs.shape)
        for b in range(len(qs)):
            for h in range(n_heads):
                from_k, from_v = (f(h, n_heads, n_kv) for f in (k_head, v_head or k_head))
                read = ks[sequence(b), from_k], vs[sequence(b), from_v]
                out[b, out_head(h, n_heads, n_kv)] = one_head(qs[b, h], *read, factor)
        return out

    return {"grouped_query_attention": grouped_query_attention}


def _tiled(h: int, n_heads: int, n_kv: int) -> int:
    return h % n_kv


def _crosswise(h: int, n_heads: int, n_kv: int) -> int:
    """(H_kv, group) read as (group, H_kv): the right results in another order."""
    group = max(n_heads // n_kv, 1)
    return h % group * n_kv + h // group


def _torch_refuses(n_heads: int, n_kv: int, n_q: int, n_k: int) -> bool:
    """Leaves heads that do not fit to torch, whose errors are RuntimeErrors."""
    if n_q <= n_k and n_heads % n_kv:
        raise RuntimeError
    return n_q > n_k


def _case(
    rng: Generator, batch: int, heads: int, n_kv: int, n_q: int, n_k: int, d: int = 8, equal_keys: bool = False
) -> Case:
    """`equal_keys`: all positions of a head have the same key, so that the weights are equal and the scale plays no part."""
    q, k, v = (rng.normal(size=(batch, h, n, d)) for h, n in ((heads, n_q), (n_kv, n_k), (n_kv, n_k)))
    if equal_keys:
        k = np.repeat(k[:, :, :1], n_k, axis=2)
    return Case(call("grouped_query_attention", *(torch.from_numpy(x.astype(np.float32)) for x in (q, k, v))))


def _one_position(rng: Generator) -> list[Case]:
    cases = [_case(rng, 1, heads, n_kv, 1, 1) for heads, n_kv in ((3, 3), (4, 1))]
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _decode(rng: Generator) -> list[Case]:
    return [_case(rng, 1, heads, n_kv, 1, n, d) for heads, n_kv, n, d in ((2, 2, 9, 8), (4, 1, 30, 16), (3, 3, 5, 4))]


def _prefill(rng: Generator) -> list[Case]:
    return [_case(rng, 1, heads, n_kv, n, n, d) for heads, n_kv, n, d in ((2, 2, 9, 8), (4, 1, 17, 16), (3, 3, 4, 4))]


def _chunk(rng: Generator) -> list[Case]:
    return [
        _case(rng, 1, heads, n_kv, n_q, n_k, equal_keys=True)
        for heads, n_kv, n_q, n_k in ((2, 2, 2, 3), (4, 1, 3, 11), (1, 1, 7, 30))
    ]


def _values(rng: Generator) -> list[Case]:
    return [_case(rng, 1, heads, n_kv, 1, 1) for heads, n_kv in ((6, 2), (6, 3), (8, 4), (4, 2))]


def _keys(rng: Generator) -> list[Case]:
    return [_case(rng, 1, heads, n_kv, n, n) for heads, n_kv, n in ((6, 2, 5), (6, 3, 8), (8, 4, 3))]


def _batch(rng: Generator) -> list[Case]:
    return [_case(rng, batch, heads, n_kv, 1, 6, equal_keys=True) for batch, heads, n_kv in ((2, 2, 2), (3, 3, 1))]


def _refused(rng: Generator) -> list[Case]:
    good = _case(rng, 1, 2, 2, 1, 1).steps
    bad = [(1, 5, 2, 1, 1), (1, 2, 4, 1, 1), (2, 7, 3, 2, 2), (1, 2, 2, 5, 4), (1, 4, 1, 2, 1)]
    return [Case(*_case(rng, *sizes).steps, *good) for sizes in bad]


EXERCISE = Exercise(
    "grouped_query_attention",
    _attention(),
    groups=[
        Group(
            "one position", 0.5, "a position alone gets its own value, and the inputs stay as they are", _one_position
        ),
        Group("decode", 0.5, "one query sees every key; scores are divided by sqrt(d)", _decode),
        Group("prefill", 0.5, "as many queries as keys: each sees itself and what comes before", _prefill),
        Group("chunk", 0.5, "query i is position n_k - n_q + i", _chunk),
        Group("values of groups", 0.5, "query head h reads the values of KV head h // (H_q / H_kv)", _values),
        Group("keys of groups", 0.5, "query head h reads the keys of KV head h // (H_q / H_kv)", _keys),
        Group("batch", 0.5, "each sequence of a batch reads its own keys and values", _batch),
        Group("refused", 0.5, "H_q that is no multiple of H_kv, and n_q > n_k, raise ValueError", _refused),
    ],
    mistakes=[
        Mistake(
            "heads tiled",
            "query heads that share a KV head are neighbours: repeat each KV head in a row, not the whole list",
            _attention(k_head=_tiled),
        ),
        Mistake("values tiled", "the values come from another KV head than the keys", _attention(v_head=_tiled)),
        Mistake(
            "keys tiled",
            "the keys come from another KV head than the values",
            _attention(k_head=_tiled, v_head=lambda h, n, m: h * m // n),
        ),
        Mistake("first KV head for all", "all query heads read KV head 0", _attention(k_head=lambda h, n, m: 0)),
        Mistake(
            "heads in another order", "the heads of the result stand in the order of q", _attention(out_head=_crosswise)
        ),
        Mistake(
            "first sequence for all",
            "all sequences of the batch read the cache of the first",
            _attention(sequence=lambda b: 0),
        ),
        Mistake("unscaled", "the scores are not divided by sqrt(d)", _attention(scale=lambda d: 1.0)),
        Mistake(
            "scaled by the width", "the scores are divided by d, not by its root", _attention(scale=lambda d: 1 / d)
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
        Mistake("hidden by zero", "a hidden score is minus infinity, not 0", _attention(hidden=0.0)),
        Mistake(
            "masked after softmax",
            "mask first, then softmax: the weights of a query add up to 1",
            _attention(masked_after=True),
        ),
        Mistake(
            "softmax over queries", "the softmax runs over the keys, the last axis of the scores", _attention(axis=0)
        ),
        Mistake("no softmax", "the scores are used as weights: softmax is missing", _attention(softmax=False)),
        Mistake("inputs changed", "q was changed in place", _attention(in_place=True)),
        Mistake(
            "uneven heads pass",
            "H_q that is no multiple of H_kv has to raise ValueError",
            [
                _attention(refuses=_torch_refuses),
                _attention(refuses=lambda n, m, n_q, n_k: n_q > n_k),
                _attention(
                    refuses=lambda n, m, n_q, n_k: n_q > n_k,
                    k_head=lambda h, n, m: min(h // max(n // m, 1), m - 1),
                ),
                _attention(refuses=lambda n, m, n_q, n_k: n_q > n_k or m > n),
            ],
        ),
        Mistake(
            "too many queries pass",
            "more queries than keys have to raise ValueError",
            _attention(refuses=lambda n, m, n_q, n_k: n % m > 0),
        ),
    ],
)
