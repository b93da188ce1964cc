"""Right: the first difference by numpy; the result is a numpy integer."""

import numpy as np


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("a block holds a token")
    usable = max(min(len(stored), len(prompt) - 1), 0)
    same = np.array(stored[:usable], dtype=int) == np.array(prompt[:usable], dtype=int)
    return np.cumprod(same).astype(int).sum() // block * block
