"""The small work between the matrix products of a prefill, compiled: each function reads and writes its data once.

torch would make a tensor for every step of a formula.
"""

from __future__ import annotations

import math

import numpy as np

from kvlab.fast.kernels import compiled, exp, store, widen
from kvlab.fast.step import turn


@compiled
def add_normalise(x, y, weight, epsilon, out):  # type: ignore[no-untyped-def]
    """x += y, then out = RMSNorm(x). All (n, d_model); x is never rounded to the width of y and out."""
    n, width = x.shape
    for r in range(n):
        row, more, target = x[r], y[r], out[r]
        total = x.dtype.type(0)
        for i in range(width):
            row[i] += widen(more[i])
            total += row[i] * row[i]
        factor = x.dtype.type(1 / math.sqrt(total / width + epsilon))
        for i in range(width):
            store(target, i, row[i] * factor * weight[i])


@compiled
def split_turn(qkv, cos, sin, start, q, keys, values, room):  # type: ignore[no-untyped-def]
    """Heads of new positions: q turned into (KV heads, n, group, d), k turned and v into the cache from `start` on.

    room: 2 d numbers, for one head before and after turning.
    """
    n_kv, n, group, d = q.shape
    before, after = room[:d], room[d : 2 * d]
    for r in range(n):
        at = start + r
        for h in range(n_kv * group + n_kv):
            for i in range(d):
                before[i] = widen(qkv[r, h * d + i])
            turn(before, cos[at], sin[at], after)
            target = q[h // group, r, h % group] if h < n_kv * group else keys[h - n_kv * group, at]
            for i in range(d):
                store(target, i, after[i])
        for h in range(n_kv):
            source, target = qkv[r, (n_kv * group + n_kv + h) * d :], values[h, at]
            for i in range(d):
                target[i] = source[i]


@compiled
def softmax(scores, totals, first, scale, room):  # type: ignore[no-untyped-def]
    """Scores (KV heads, n, group, keys) become exponentials; their sums go to totals (KV heads, n, group).

    Row i is position first + i and sees keys 0 to first + i: the others become 0. room: a number for each key.
    """
    n_kv, n, group, _ = scores.shape
    line = room
    zero = line.dtype.type(0)
    for r in range(n):
        seen = first + r + 1
        for h in range(n_kv):
            for g in range(group):
                row = scores[h, r, g]
                top = line.dtype.type(-np.inf)
                for i in range(seen):
                    line[i] = widen(row[i])
                    top = max(top, line[i])
                total = zero
                for i in range(seen):
                    line[i] = exp((line[i] - top) * scale)
                    total += line[i]
                for i in range(seen):
                    store(row, i, line[i])
                row[seen:] = 0
                totals[h, r, g] = total


@compiled
def divide(mixed, totals, out):  # type: ignore[no-untyped-def]
    """out (n, heads * d) = mixed (KV heads, n, group, d) / totals (KV heads, n, group)."""
    n_kv, n, group, d = mixed.shape
    for r in range(n):
        for h in range(n_kv):
            for g in range(group):
                share = totals.dtype.type(1) / totals[h, r, g]
                source, target = mixed[h, r, g], out[r, (h * group + g) * d : (h * group + g + 1) * d]
                for i in range(d):
                    store(target, i, widen(source[i]) * share)


@compiled
def gated(gate_up, out, one):  # type: ignore[no-untyped-def]
    """out (n, d_ff) = SiLU(gate) * up, from (n, 2 d_ff). `one` is 1 in the type to compute with."""
    n, width = out.shape
    for r in range(n):
        gates, ups, target = gate_up[r, :width], gate_up[r, width:], out[r]
        for i in range(width):
            gate = widen(gates[i])
            store(target, i, gate / (one + exp(-gate)) * widen(ups[i]))
