"""Right: counts for each token how many are larger; a list comes back."""

import math


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    values = logits.tolist()
    out = []
    for value in values:
        larger = sum(1 for other in values if other > value)
        out.append(value if larger < k else -math.inf)
    return out
