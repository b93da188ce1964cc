"""Right: numpy: the values are read once and written once, so repeated ids do no harm."""

import numpy as np


def apply_repetition_penalty(logits, context_ids, penalty):
    if not penalty > 0:
        raise ValueError("the penalty must be above 0")
    values = np.array(logits.tolist())
    ids = np.array([int(i) for i in context_ids], dtype=np.int64)
    if ((ids < 0) | (ids >= len(values))).any():
        raise ValueError("an id outside the vocabulary")
    old = values[ids]
    values[ids] = np.where(old > 0, old / penalty, old * penalty)
    return values
