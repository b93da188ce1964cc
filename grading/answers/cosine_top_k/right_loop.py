"""Right: document by document, sorted; two lists."""

import math


def cosine_top_k(query, docs, k):
    q, rows = query.tolist(), docs.tolist()
    if len(q) != len(rows[0]) or not 0 < k <= len(rows):
        raise ValueError("bad arguments")
    scored = []
    for i, row in enumerate(rows):
        below = math.hypot(*q) * math.hypot(*row)
        dot = sum(a * b for a, b in zip(q, row, strict=True))
        scored.append((-dot / below if below > 0 else 0.0, i))
    scored.sort()
    return [-score for score, _ in scored[:k]], [i for _, i in scored[:k]]
