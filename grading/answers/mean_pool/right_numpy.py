"""Right: a masked array of numpy, in float64."""

import numpy as np


def mean_pool(hidden, mask):
    h, m = np.asarray(hidden, dtype=np.float64), np.asarray(mask).astype(bool)
    if m.shape != h.shape[:2]:
        raise ValueError((h.shape, m.shape))
    if (m.sum(axis=1) == 0).any():
        raise ValueError("a row without a token")
    dropped = np.broadcast_to(~m[:, :, None], h.shape)
    return np.ma.array(h, mask=dropped).mean(axis=1).data
