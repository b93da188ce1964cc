"""Right: tiles of keys outside, all later queries inside (numpy, float64), one head at a time."""

import numpy as np


def online_softmax_attention(q, k, v, block_size):
    if block_size < 1 or not tuple(q.shape) == tuple(k.shape) == tuple(v.shape):
        raise ValueError("block_size or shapes")
    heads = [one_head(*(np.asarray(x[h], dtype=np.float64) for x in (q, k, v)), block_size) for h in range(len(q))]
    return np.stack(heads)


def one_head(q, k, v, size):
    n, d = q.shape
    top, total, mixed = np.full(n, -np.inf), np.zeros(n), np.zeros((n, d))
    for begin in range(0, n, size):
        columns = np.arange(begin, min(begin + size, n))
        for start in range(begin, n, size):
            rows = slice(start, min(start + size, n))
            s = q[rows] @ k[columns].T / np.sqrt(d)
            s[columns > np.arange(n)[rows, None]] = -np.inf
            new = np.maximum(top[rows], s.max(axis=1))
            shrink, w = np.exp(top[rows] - new), np.exp(s - new[:, None])
            total[rows] = total[rows] * shrink + w.sum(axis=1)
            mixed[rows] = mixed[rows] * shrink[:, None] + w @ v[columns]
            top[rows] = new
    return mixed / total[:, None]
