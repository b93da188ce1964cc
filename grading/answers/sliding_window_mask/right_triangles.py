"""Right: a triangle without a smaller triangle, in numpy."""

import numpy as np


def sliding_window_mask(n_q, n_k, window):
    shift = n_k - n_q
    if shift < 0:
        raise ValueError("too many queries")
    if window < 1:
        raise ValueError("the window is empty")
    everything = np.ones((n_q, n_k), dtype=bool)
    return np.tril(everything, shift) & ~np.tril(everything, shift - window)
