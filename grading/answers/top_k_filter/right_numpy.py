"""Right: numpy, sorted upwards."""

import numpy as np


def top_k_filter(logits, k):
    if k <= 0:
        raise ValueError(f"k is {k}")
    values = np.array(logits.tolist())
    if k >= len(values):
        return values
    limit = np.sort(values)[-k]
    values[values < limit] = -np.inf
    return values
