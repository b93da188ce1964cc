"""Held-out cases of online_softmax_attention. The oracle is written apart from the unit's solution and from kvlab.

One case is so long that n x n values, even of one byte, are more than it may take. What the oracle and the mistakes make
of it is kept, since each of them is asked again for every answer of a class.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, Step, call, unchanged

LONG, LONG_TILE = 8192, 64
EXTRA = 56 << 20  # bytes; a mask of LONG x LONG takes 64 MiB

Array = np.ndarray


def _remembering(compute: Callable[..., Array]) -> Callable[..., Array]:
    """Keep the latest result for a long input."""
    known: dict[bytes, Array] = {}

    def remembered(q: Array, k: Array, v: Array, size: int) -> Array:
        if q.shape[1] < LONG:
            return compute(q, k, v, size)
        key = hashlib.sha256(b"".join(x.tobytes() for x in (q, k, v))).digest()
        if key not in known:
            known.clear()
            known[key] = compute(q, k, v, size)
        return known[key]

    return remembered


def _attention(
    scale: Callable[[int], float] = lambda d: 1 / math.sqrt(d),
    sees: Callable[[Array, Array, int], Array] = lambda i, j, size: j <= i,
    hidden: float = -math.inf,
    tiles: Callable[[int, int, int], list[tuple[int, int]]] | None = None,
    maximum: Callable[[Array, Array], Array] = np.maximum,
    start: float = -math.inf,
    sum_shrinks: bool = True,
    mix_shrinks: bool = True,
    finish: Callable[[Array, Array], Array] = lambda mixed, total: mixed / total,
    each_tile: bool = False,
    whole_tiles: bool = False,
    head: Callable[[int], int] = lambda h: h,
    least: int = 1,
    same: str = "kv",
    changes: bool = False,
    too_large: type[Exception] | None = None,
    unfit: type[Exception] | None = None,
) -> dict[str, Any]:
    """The algorithm, one head and one tile of queries at a time, in float64, with the ways to get it wrong as arguments.

    sees: whether query i sees key j; tiles: (begin, end) of the key tiles for queries from first to end; maximum, start:
    the running maximum; sum_shrinks, mix_shrinks: what is scaled down when it rises; each_tile: a softmax per tile;
    whole_tiles: what is left after the last whole tile is dropped; same: which of k and v must have q's shape;
    unfit: the error for other shapes all the same.
    """

    def one_head(q: Array, k: Array, v: Array, size: int) -> Array:
        n = len(q)
        end = n // size * size if whole_tiles else n
        out = np.zeros(v[:n].shape if len(v) >= n else q.shape)
        for first in range(0, end, size):
            rows = np.arange(first, min(first + size, n))
            spans = tiles(first, size, n) if tiles else [(b, b + size) for b in range(0, first + size, size)]
            largest = np.full((len(rows), 1), start)
            total, mixed = np.zeros((len(rows), 1)), np.zeros((len(rows), v.shape[1]))
            for begin, stop in spans:
                columns = np.arange(begin, min(stop, end, len(k), len(v)))
                if not len(columns):
                    continue
                scores = q[rows] @ k[columns].T
                visible = sees(rows[:, None], columns, size)
                scores = np.where(visible, scores, hidden)
                higher = maximum(largest, scores.max(axis=1, keepdims=True))
                safe = np.where(np.isneginf(higher), 0.0, higher)
                weights, shrink = np.exp(scores - safe), np.exp(largest - safe)
                if each_tile:
                    part = weights.sum(axis=1, keepdims=True)
                    mixed += np.where(part > 0, weights @ v[columns] / np.where(part > 0, part, 1), 0.0)
                    total += part > 0
                else:
                    total = total * (shrink if sum_shrinks else 1) + weights.sum(axis=1, keepdims=True)
                    mixed = mixed * (shrink if mix_shrinks else 1) + weights @ v[columns]
                largest = higher
            out[rows] = finish(mixed, total)
        return out

    @_remembering
    def compute(q: Array, k: Array, v: Array, size: int) -> Array:
        factor = scale(q.shape[2])
        with np.errstate(all="ignore"):
            return np.stack([one_head(q[h] * factor, k[head(h)], v[head(h)], size) for h in range(len(q))])

    def online_softmax_attention(q: Any, k: Any, v: Any, block_size: int) -> Array:
        if block_size < least or any(x.shape != q.shape for name, x in (("k", k), ("v", v)) if name in same):
            raise ValueError
        if q.shape[1] == LONG and too_large:
            raise too_large
        if unfit and not q.shape == k.shape == v.shape:
            raise unfit
        arrays = [x.double().numpy() for x in (q, k, v)]
        if changes:
            q *= 1 / math.sqrt(q.shape[2])
        return compute(*arrays, block_size if block_size > 0 else max(1, q.shape[1]))

    return {"online_softmax_attention": online_softmax_attention}


def _case(qkv: Iterable[Array], size: int, *more: Step, extra_memory: int | None = None) -> Case:
    tensors = (torch.from_numpy(x.astype(np.float32)) for x in qkv)
    return Case(call("online_softmax_attention", *tensors, size), *more, extra_memory=extra_memory)


def _drawn(rng: Generator, *sizes: tuple[int, int, int, int]) -> list[Case]:
    """sizes: heads, positions, width, tile."""
    return [_case(rng.normal(size=(3, heads, n, d)), size) for heads, n, d, size in sizes]


def _alone(rng: Generator) -> list[Case]:
    """Tiles of one position, and equal keys: each query gets the mean of the values up to its own."""
    cases = []
    for heads, n in ((1, 1), (2, 6), (3, 19)):
        q, k, v = rng.normal(size=(3, heads, n, 8))
        cases.append(_case((q, np.repeat(k[:, :1], n, axis=1), v), 1, unchanged(0)))
    return cases


def _short_end(rng: Generator) -> list[Case]:
    """The last tile holds one position, which alone has another value: who loses or misplaces it shows."""
    cases = []
    for n, size in ((9, 4), (33, 8), (10, 3), (65, 32)):
        q, k, v = rng.normal(size=(3, 1, n, 8))
        k[:], v[:, :-1] = k[:, :1], v[:, :1]
        cases.append(_case((q, k, v + 1), size))
    return cases


def _far_apart(rng: Generator, first: float) -> list[Case]:
    """Scores falling by thousands; one value everywhere, so that only overflow, of float64 too, can show."""
    cases = []
    for n, size in ((9, 3), (16, 4), (10, 4)):
        keys = first - np.cumsum(rng.integers(1, 3, n) * 1000.0)
        v = np.repeat(rng.normal(size=(1, 1, 4)), n, axis=1)
        width = np.eye(4)[:1] * 2  # a query and a key with one coordinate each: the root of d is 2
        cases.append(_case((np.ones((1, n, 1)) * width, keys[None, :, None] * np.eye(4)[:1], v), size))
    return cases


def _long(rng: Generator) -> list[Case]:
    """A small case comes first: a process is let go after a case with extra_memory, so the long one has a fresh one."""
    sizes = (32, LONG)
    return [_case(rng.normal(size=(3, 1, n, 8)), min(n // 2, LONG_TILE), extra_memory=EXTRA) for n in sizes]


def _refused(rng: Generator) -> list[Case]:
    good = _drawn(rng, (1, 1, 4, 1))[0].steps
    q, k, v = (torch.from_numpy(x.astype(np.float32)) for x in rng.normal(size=(3, 2, 6, 4)))
    bad = [(q, k, v, 0), (q, k, v, -1), (q, k, v, -int(rng.integers(2, 9)))]
    bad += [(q, k[:, :5], v[:, :5], 2), (q, k, v[:, :5], 2), (q, k[:, :5], v, 2)]
    return [Case(call("online_softmax_attention", *args), *good) for args in bad]


def _tiles_before(first: int, size: int, n: int) -> list[tuple[int, int]]:
    return [(b, b + size) for b in range(0, max(first, 1), size)]


def _all_tiles(first: int, size: int, n: int) -> list[tuple[int, int]]:
    return [(b, b + size) for b in range(0, n, size)]


EXERCISE = Exercise(
    "online_softmax_attention",
    _attention(),
    groups=[
        Group(
            "one tile",
            0.5,
            "a tile that holds all positions gives plain causal attention",
            lambda rng: _drawn(rng, (2, 7, 8, 7), (1, 12, 16, 40), (3, 5, 4, 6)),
        ),
        Group("tiles of one", 0.5, "tiles of one position: a query sees all up to its own", _alone),
        Group(
            "whole tiles",
            0.75,
            "when the largest score rises, both sums are scaled down",
            lambda rng: _drawn(rng, (2, 12, 8, 4), (1, 32, 16, 8), (3, 10, 4, 2)),
        ),
        Group("a short last tile", 0.5, "the last tile may be shorter, and counts like the others", _short_end),
        Group(
            "large scores",
            0.25,
            "exp overflows: subtract the largest of all scores so far",
            lambda rng: _far_apart(rng, 60000.0),
        ),
        Group(
            "very negative scores",
            0.25,
            "exp of every score is 0: the largest score begins at minus infinity",
            lambda rng: _far_apart(rng, -1000.0),
        ),
        Group("refused", 0.25, "a block_size below 1, and different shapes, raise ValueError", _refused),
        Group("a long text", 1.0, "8192 positions: n x n values, even of one byte, do not fit into memory", _long),
    ],
    mistakes=[
        Mistake(
            "whole matrix",
            "n x n values do not fit into memory for a long text, not even as a mask: go tile by tile",
            [_attention(too_large=error) for error in (RuntimeError, MemoryError)],
        ),
        Mistake("unscaled", "the scores are not divided by sqrt(d)", _attention(scale=lambda d: 1.0)),
        Mistake("scaled by d", "the scores are divided by d, not by its root", _attention(scale=lambda d: 1 / d)),
        Mistake(
            "values not scaled down",
            "when the largest score rises, the mixed values have to be scaled down like their sum",
            _attention(mix_shrinks=False),
        ),
        Mistake(
            "sum not scaled down",
            "when the largest score rises, the sum of the weights has to be scaled down too",
            [_attention(sum_shrinks=False), _attention(sum_shrinks=False, mix_shrinks=False)],
        ),
        Mistake(
            "largest of the last tile",
            "the largest score of all tiles so far counts, not that of the newest tile alone",
            _attention(maximum=lambda old, new: new),
        ),
        Mistake(
            "overflow",
            "exp overflows: subtract the largest score so far",
            _attention(maximum=lambda old, new: np.zeros_like(old), start=0.0),
        ),
        Mistake(
            "largest begins at 0",
            "the largest score begins at minus infinity: with 0, exp of very negative scores is 0",
            _attention(start=0.0),
        ),
        Mistake(
            "a softmax for each tile",
            "one softmax over all keys: tiles with larger scores weigh more",
            _attention(each_tile=True),
        ),
        Mistake(
            "not divided",
            "divide the mixed values by the sum at the end",
            _attention(finish=lambda mixed, total: mixed),
        ),
        Mistake("no mask", "queries see later keys", _attention(sees=lambda i, j, size: j >= 0, tiles=_all_tiles)),
        Mistake(
            "tile on the diagonal not masked",
            "in the tile on the diagonal some keys are later than some queries: hide them",
            _attention(sees=lambda i, j, size: j >= 0),
        ),
        Mistake(
            "tile on the diagonal left out",
            "the tile that holds the query counts too, up to the query itself",
            _attention(tiles=_tiles_before),
        ),
        Mistake(
            "hides itself",
            "a position has to see itself",
            _attention(sees=lambda i, j, size: (j < i) | ((i == 0) & (j == 0))),
        ),
        Mistake(
            "own tile only",
            "a query sees all earlier tiles, not only its own",
            _attention(tiles=lambda first, size, n: [(first, first + size)]),
        ),
        Mistake(
            "hidden by zero",
            "a hidden score is minus infinity, not 0",
            [_attention(hidden=0.0), _attention(hidden=0.0, tiles=_all_tiles)],
        ),
        Mistake("short tile dropped", "what is left after whole tiles counts too", _attention(whole_tiles=True)),
        Mistake("first head for all", "each head has its own keys and values", _attention(head=lambda h: 0)),
        Mistake("inputs changed", "q was changed in place", _attention(changes=True)),
        Mistake(
            "block_size unchecked",
            "a block_size below 1 raises ValueError, 0 and negative ones",
            [_attention(least=-99), _attention(least=0)],
        ),
        Mistake(
            "shapes unchecked",
            "q, k and v have one shape, else ValueError",
            [_attention(same=same, unfit=unfit) for same in ("", "k", "v") for unfit in (None, RuntimeError)],
        ),
    ],
    seconds=30.0,
)
