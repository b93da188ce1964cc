"""Right: query by query, each over a slice of the keys."""

import math

import numpy as np


def cached_attention(q, k, v):
    n_q, n_k, d = q.shape[1], k.shape[1], q.shape[2]
    if n_q > n_k:
        raise ValueError("more queries than keys")
    out = np.zeros_like(q)
    for h in range(q.shape[0]):
        for i in range(n_q):
            seen = n_k - n_q + i + 1
            s = k[h, :seen] @ q[h, i] / math.sqrt(d)
            p = np.exp(s - s.max())
            out[h, i] = p @ v[h, :seen] / p.sum()
    return out
