"""Right: numpy in float64, a stable sort; arrays."""

import numpy as np


def cosine_top_k(query, docs, k):
    q, d = np.asarray(query, dtype=np.float64), np.asarray(docs, dtype=np.float64)
    if d.shape[1:] != q.shape:
        raise ValueError((q.shape, d.shape))
    if k not in range(1, len(d) + 1):
        raise ValueError(k)
    lengths = np.linalg.norm(d, axis=1) * np.linalg.norm(q)
    lengths[lengths == 0] = 1.0
    scores = d @ q / lengths
    order = np.argsort(-scores, kind="stable")[:k]
    return scores[order], order
