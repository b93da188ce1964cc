"""Right: probabilities one by one; a list comes back."""

import math


def min_p_filter(logits, min_p):
    if min_p < 0 or min_p > 1:
        raise ValueError("min_p must lie between 0 and 1")
    values = logits.tolist()
    weights = [math.exp(value - max(values)) for value in values]
    return [value if weight >= min_p else -math.inf for value, weight in zip(values, weights, strict=True)]
