"""Right: a product of two vectors; the result is a numpy float."""

import numpy as np


def request_cost(usage, prices):
    keys = "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"
    counts = np.array([usage.get(key) or 0 for key in keys], dtype=float)
    if (counts < 0).any():
        raise ValueError("negative count")
    return counts @ np.array([prices[key] for key in ("input", "cache_write", "cache_read", "output")]) * 1e-6
