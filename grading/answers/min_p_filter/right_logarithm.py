"""Right: a distance in logits, in numpy."""

import numpy as np


def min_p_filter(logits, min_p):
    if not 0 <= min_p <= 1:
        raise ValueError("min_p must lie between 0 and 1")
    values = logits.double().numpy()
    farthest = np.inf if min_p == 0 else -np.log(min_p)
    return np.where(values.max() - values <= farthest, values, -np.inf)
