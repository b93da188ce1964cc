"""Right: a product by numpy, a float64 scalar."""

import numpy as np


def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    factors = np.array([2, n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value], dtype=np.float64)
    if (factors < 0).any():
        raise ValueError("sizes cannot be negative")
    return factors.prod()
