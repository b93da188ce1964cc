"""Wrong: a position does not see itself."""
# mistake: hides itself

import math

import numpy as np


def cached_attention(q, k, v):
    n_q, n_k, d = q.shape[1], k.shape[1], q.shape[2]
    if n_q > n_k:
        raise ValueError("more queries than keys")
    s = q @ k.transpose(0, 2, 1) / math.sqrt(d)
    s = np.where(np.tril(np.ones((n_q, n_k), dtype=bool), n_k - n_q - 1), s, -np.inf)
    s[..., 0] = np.where(np.isinf(s[..., 0]), 0.0, s[..., 0])
    s = s - s.max(-1, keepdims=True)
    p = np.exp(s)
    p = p / p.sum(-1, keepdims=True)
    return p @ v
