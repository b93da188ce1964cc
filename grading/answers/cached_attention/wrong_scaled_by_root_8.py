"""Wrong: the root of 8, whatever the head width is."""
# mistake: scaled for one width

import math

import numpy as np


def cached_attention(q, k, v):
    n_q, n_k = q.shape[1], k.shape[1]
    if n_q > n_k:
        raise ValueError("more queries than keys")
    s = q @ k.transpose(0, 2, 1) / math.sqrt(8)
    seen = np.tril(np.ones((n_q, n_k), dtype=bool), n_k - n_q)
    s = np.where(seen, s, -np.inf)
    s = s - s.max(-1, keepdims=True)
    p = np.exp(s)
    p = p / p.sum(-1, keepdims=True)
    return p @ v
