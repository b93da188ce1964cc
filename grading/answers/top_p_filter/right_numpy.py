"""Right: numpy: the size of the nucleus by searchsorted; of tied tokens the last ids stay."""

import numpy as np


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    values = np.array(logits.tolist())
    if p == 1:
        return values.copy()
    powers = np.exp(values - values.max())
    probs = powers / powers.sum()
    order = np.argsort(probs)[::-1]
    size = int(np.searchsorted(np.cumsum(probs[order]), p)) + 1
    out = np.full(len(values), -np.inf)
    out[order[:size]] = values[order[:size]]
    return out
