"""One decode step through the whole model, as one compiled function that every thread runs.

A thread works on its own rows of each matrix and its own positions of the cache, and waits for the others where their
results are needed: five times per layer. Small work, such as a norm, is done by each thread for itself, which is
cheaper than waiting. Nothing is allocated: all arrays come from outside (see `weights` and `scratch`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kvlab.fast.kernels import compiled, dot, exp, ready, store, wait_for_all, widen


class Matrix(NamedTuple):
    """One kind of matrix of all layers: codes (layers, rows, columns) and scales (layers, rows, groups)."""

    codes: np.ndarray
    scales: np.ndarray


class Weights(NamedTuple):
    """A model for the step. `gate_up` holds the gate's rows, then as many of up; `norms` both norms of each layer."""

    qkv: Matrix
    out: Matrix
    gate_up: Matrix
    down: Matrix
    head: Matrix
    norms: np.ndarray  # (2 * layers + 1, d_model), the last one before the head
    epsilon: float
    cos: np.ndarray  # (max_len, d_head)
    sin: np.ndarray


class Scratch(NamedTuple):
    """Memory of the step. What begins with `own_` has a row for each thread, the rest is shared."""

    x: np.ndarray  # (d_model,) the residual stream
    qkv: np.ndarray
    hidden: np.ndarray  # (d_ff,)
    heads: np.ndarray  # (threads, heads * d_head) each thread's part of the attention
    tops: np.ndarray  # (threads, heads) the largest score of that part
    totals: np.ndarray  # (threads, heads) its sum of exponentials
    own_vector: np.ndarray  # (threads, widest)
    own_whole: np.ndarray  # the same as int16, with room for padding
    own_q: np.ndarray  # (threads, heads * d_head)
    own_scores: np.ndarray  # (threads, max_len)
    counter: np.ndarray  # (1,) int64, of the barrier


def make_scratch(config: Any, weights: Weights, threads: int) -> Scratch:
    kind = np.float64 if weights.qkv.codes.dtype == np.float64 else np.float32
    inner = config.n_heads * config.d_head
    widest = max(config.d_model, config.d_ff, inner)
    padded = -(-widest // 64) * 64

    def real(*shape: int) -> np.ndarray:
        return np.zeros(shape, kind)

    return Scratch(
        x=real(config.d_model),
        qkv=real(inner + 2 * config.n_kv_heads * config.d_head),
        hidden=real(config.d_ff),
        heads=real(threads, inner),
        tops=real(threads, config.n_heads),
        totals=real(threads, config.n_heads),
        own_vector=real(threads, widest),
        own_whole=np.zeros((threads, padded), np.int16),
        own_q=real(threads, inner),
        own_scores=real(threads, config.max_len),
        counter=np.zeros(1, np.int64),
    )


@compiled
def normalise(x, weight, epsilon, out):  # type: ignore[no-untyped-def]
    """RMSNorm of `x` into `out`."""
    total = x.dtype.type(0)
    for i in range(len(x)):
        total += x[i] * x[i]
    factor = x.dtype.type(1 / math.sqrt(total / len(x) + epsilon))
    for i in range(len(x)):
        out[i] = x[i] * factor * weight[i]


@compiled
def turn(source, cos, sin, out):  # type: ignore[no-untyped-def]
    """RoPE of one head: the pair (i, i + d/2) by its angle."""
    half = len(source) // 2
    for i in range(half):
        first, second = source[i], source[half + i]
        out[i] = first * cos[i] - second * sin[i]
        out[half + i] = second * cos[half + i] + first * sin[half + i]


@compiled
def attend_part(q, keys, values, first, end, scores, out):  # type: ignore[no-untyped-def]
    """Attention of one query over the positions first to end: (largest score, sum of exponentials), `out` unscaled."""
    width = len(q)
    zero = q.dtype.type(0)
    top = q.dtype.type(-np.inf)
    scale = q.dtype.type(1 / math.sqrt(width))
    for p in range(first, end):
        score = zero
        for i in range(width):
            score += q[i] * widen(keys[p, i])
        score *= scale
        scores[p] = score
        top = max(top, score)
    total = zero
    for p in range(first, end):
        scores[p] = exp(scores[p] - top)
        total += scores[p]
    out[:] = zero
    p = first
    while p + 4 <= end:  # four positions for each pass over `out`
        a, b, c, d = scores[p], scores[p + 1], scores[p + 2], scores[p + 3]
        for i in range(width):
            out[i] += (
                a * widen(values[p, i])
                + b * widen(values[p + 1, i])
                + c * widen(values[p + 2, i])
                + d * widen(values[p + 3, i])
            )
        p += 4
    while p < end:
        for i in range(width):
            out[i] += scores[p] * widen(values[p, i])
        p += 1
    return top, total


@compiled
def attend(w, s, keys, values, position, t, threads):  # type: ignore[no-untyped-def]
    """This thread's positions of every head of one layer. keys, values: (KV heads, max_len, d_head)."""
    n_kv, d = keys.shape[0], keys.shape[2]
    n_heads = s.tops.shape[1]
    group = n_heads // n_kv
    first, end = t * (position + 1) // threads, (t + 1) * (position + 1) // threads
    q = s.own_q[t]
    for h in range(n_heads):
        turn(s.qkv[h * d : (h + 1) * d], w.cos[position], w.sin[position], q[h * d : (h + 1) * d])
    if end > position:  # the new position is this thread's: nobody else reads it
        k = s.own_vector[t][:d]
        for h in range(n_kv):
            turn(s.qkv[(n_heads + h) * d : (n_heads + h + 1) * d], w.cos[position], w.sin[position], k)
            at_v = (n_heads + n_kv + h) * d
            for i in range(d):
                store(keys[h, position], i, k[i])
                store(values[h, position], i, s.qkv[at_v + i])
    for h in range(n_heads):
        out = s.heads[t, h * d : (h + 1) * d]
        s.tops[t, h], s.totals[t, h] = attend_part(
            q[h * d : (h + 1) * d], keys[h // group], values[h // group], first, end, s.own_scores[t], out
        )


@compiled
def merge(s, d, threads, out):  # type: ignore[no-untyped-def]
    """The threads' parts of the attention as one: exponentials brought to the same largest score, then divided."""
    for h in range(s.tops.shape[1]):
        top = s.tops[0, h]
        for j in range(1, threads):
            top = max(top, s.tops[j, h])
        total = s.x.dtype.type(0)
        out[h * d : (h + 1) * d] = total
        for j in range(threads):
            if s.totals[j, h] == 0:  # a thread without positions
                continue
            share = exp(s.tops[j, h] - top)
            total += share * s.totals[j, h]
            for i in range(h * d, (h + 1) * d):
                out[i] += share * s.heads[j, i]
        for i in range(h * d, (h + 1) * d):
            out[i] /= total


@compiled
def decode(w, s, keys, values, position, logits, t, threads):  # type: ignore[no-untyped-def]
    """Thread `t` of `threads`: from s.x, which holds the token's embedding, to its rows of `logits`.

    keys, values: (layers, KV heads, max_len, d_head); the new position is written there.
    """
    layers, d = keys.shape[0], keys.shape[3]
    width = len(s.x)
    vector, mixed, whole = s.own_vector[t, :width], s.own_vector[t, : s.heads.shape[1]], s.own_whole[t]
    one = s.x.dtype.type(1)
    n = len(s.hidden)
    goal = 0
    for layer in range(layers):
        normalise(s.x, w.norms[2 * layer], w.epsilon, vector)
        codes, scales = w.qkv.codes[layer], w.qkv.scales[layer]
        factor = ready(codes, vector, whole)
        for r in range(t * len(s.qkv) // threads, (t + 1) * len(s.qkv) // threads):
            s.qkv[r] = dot(codes, scales, r, vector, whole, factor)
        goal += threads
        wait_for_all(s.counter, goal)

        attend(w, s, keys[layer], values[layer], position, t, threads)
        goal += threads
        wait_for_all(s.counter, goal)

        merge(s, d, threads, mixed)
        codes, scales = w.out.codes[layer], w.out.scales[layer]
        factor = ready(codes, mixed, whole)
        for r in range(t * width // threads, (t + 1) * width // threads):
            s.x[r] += dot(codes, scales, r, mixed, whole, factor)
        goal += threads
        wait_for_all(s.counter, goal)

        normalise(s.x, w.norms[2 * layer + 1], w.epsilon, vector)
        codes, scales = w.gate_up.codes[layer], w.gate_up.scales[layer]
        factor = ready(codes, vector, whole)
        first, end = t * n // threads, (t + 1) * n // threads
        for r in range(first, end):
            s.hidden[r] = dot(codes, scales, r, vector, whole, factor)
        for r in range(first, end):  # not both in one loop: memory streams best in one place at a time
            gate = s.hidden[r]
            s.hidden[r] = gate / (one + exp(-gate)) * dot(codes, scales, n + r, vector, whole, factor)
        goal += threads
        wait_for_all(s.counter, goal)

        codes, scales = w.down.codes[layer], w.down.scales[layer]
        factor = ready(codes, s.hidden, whole)
        for r in range(t * width // threads, (t + 1) * width // threads):
            s.x[r] += dot(codes, scales, r, s.hidden, whole, factor)
        goal += threads
        wait_for_all(s.counter, goal)

    normalise(s.x, w.norms[2 * layers], w.epsilon, vector)
    codes, scales = w.head.codes[0], w.head.scales[0]
    factor = ready(codes, vector, whole)
    for r in range(t * len(logits) // threads, (t + 1) * len(logits) // threads):
        logits[r] = dot(codes, scales, r, vector, whole, factor)
