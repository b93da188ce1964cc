"""Right: numpy, all at once."""

import numpy as np


def apply_logit_bias(logits, bias):
    values = np.array(logits.tolist())
    ids = np.array(list(bias), dtype=np.int64)
    if ((ids < 0) | (ids >= len(values))).any():
        raise ValueError("an id outside the vocabulary")
    values[ids] += np.array(list(bias.values()), dtype=np.float64)
    return values
