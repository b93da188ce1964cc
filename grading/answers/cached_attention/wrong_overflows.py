"""Wrong: exp without subtracting the largest score."""
# mistake: overflow

import math

import numpy as np


def cached_attention(q, k, v):
    n_q, n_k, d = q.shape[1], k.shape[1], q.shape[2]
    if n_q > n_k:
        raise ValueError("more queries than keys")
    s = q @ k.transpose(0, 2, 1) / math.sqrt(d)
    s = np.where(np.tril(np.ones((n_q, n_k), dtype=bool), n_k - n_q), s, -np.inf)
    with np.errstate(all="ignore"):
        p = np.exp(s)
        p = p / p.sum(-1, keepdims=True)
    return p @ v
