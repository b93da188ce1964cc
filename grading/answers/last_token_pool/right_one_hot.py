"""Right: a weight of 1 where the tokens end, in numpy."""

import numpy as np


def last_token_pool(hidden, mask):
    h, m = np.asarray(hidden), np.asarray(mask).astype(int)
    if m.shape != h.shape[:2]:
        raise ValueError("shapes")
    if not m.any(axis=1).all():
        raise ValueError("a row of zeros")
    ends = (np.diff(m, axis=1, append=0) == -1).astype(h.dtype)
    return np.einsum("bn,bnd->bd", ends, h)
