"""Right: plain Python loops; gives nested lists."""

import math


def attend_one(query, keys, values):
    scores = [sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query)) for key in keys]
    weights = [math.exp(score - max(scores)) for score in scores]
    total = sum(weights)
    return [sum(w * value[c] for w, value in zip(weights, values, strict=True)) / total for c in range(len(query))]


def grouped_query_attention(q, k, v):
    q, k, v = q.tolist(), k.tolist(), v.tolist()
    out = []
    for queries, keys, values in zip(q, k, v, strict=True):
        if len(queries) % len(keys):
            raise ValueError("a KV head needs the same number of query heads as any other")
        group = len(queries) // len(keys)
        heads = []
        for h, rows in enumerate(queries):
            offset = len(keys[0]) - len(rows)
            if offset < 0:
                raise ValueError("too many queries")
            seen = [slice(0, offset + i + 1) for i in range(len(rows))]
            own_k, own_v = keys[h // group], values[h // group]
            heads.append([attend_one(row, own_k[s], own_v[s]) for row, s in zip(rows, seen, strict=True)])
        out.append(heads)
    return out
