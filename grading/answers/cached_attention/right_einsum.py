"""Right: einsum, mask from position numbers."""

import math

import numpy as np


def cached_attention(q, k, v):
    n_q, n_k, d = q.shape[1], k.shape[1], q.shape[2]
    if n_q > n_k:
        raise ValueError("more queries than keys")
    s = np.einsum("hid,hjd->hij", q, k) / math.sqrt(d)
    hidden = np.arange(n_k)[None, :] > np.arange(n_k - n_q, n_k)[:, None]
    s[:, hidden] = -np.inf
    p = np.exp(s - s.max(axis=2, keepdims=True))
    return np.einsum("hij,hjd->hid", p, v) / p.sum(axis=2)[..., None]
