"""Right: plain Python loops; gives nested lists."""

import math


def cached_attention(q, k, v):
    n_q, n_k = len(q[0]), len(k[0])
    if n_q > n_k:
        raise ValueError("more queries than keys")
    heads = []
    for queries, keys, values in zip(q, k, v, strict=True):
        rows = []
        for i, query in enumerate(queries):
            seen = n_k - n_q + i + 1
            scores = [
                sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query)) for key in keys[:seen]
            ]
            weights = [math.exp(score - max(scores)) for score in scores]
            total = sum(weights)
            rows.append(
                [
                    sum(w * value[c] for w, value in zip(weights, values, strict=False)) / total
                    for c in range(len(query))
                ]
            )
        heads.append(rows)
    return heads
