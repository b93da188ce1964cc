"""Right: takes tokens one by one until they reach p; a list comes back."""

import math


def top_p_filter(logits, p):
    if p <= 0 or p > 1:
        raise ValueError("p must be above 0 and at most 1")
    values = logits.tolist()
    if p == 1:
        return values
    weights = [math.exp(value - max(values)) for value in values]
    order = sorted(range(len(values)), key=lambda i: -weights[i])
    out, reached = [-math.inf] * len(values), 0.0
    for i in order:
        if reached >= p:
            break
        out[i] = values[i]
        reached += weights[i] / sum(weights)
    return out
