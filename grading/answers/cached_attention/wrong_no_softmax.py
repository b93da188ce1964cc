"""Wrong: the scores are the weights."""
# mistake: no softmax

import math

import numpy as np


def cached_attention(q, k, v):
    n_q, n_k, d = q.shape[1], k.shape[1], q.shape[2]
    if n_q > n_k:
        raise ValueError("more queries than keys")
    s = q @ k.transpose(0, 2, 1) / math.sqrt(d)
    seen = np.tril(np.ones((n_q, n_k), dtype=bool), n_k - n_q)
    return np.where(seen, s, 0) @ v
