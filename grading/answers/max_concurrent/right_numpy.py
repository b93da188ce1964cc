"""Right: numpy, in values and not in bytes; a float with a whole value."""

import numpy as np


def max_concurrent(model, gpu, seq_len, reserve_bytes=0):
    if np.any(np.array([seq_len - 1, reserve_bytes]) < 0):
        raise ValueError("too small")
    values = (gpu["memory_bytes"] - reserve_bytes) / model["bytes_per_value"] - model["n_params"]
    shape = (2, model["n_layers"], model["n_kv_heads"], seq_len, model["d_head"])
    return np.floor(np.clip(values / np.prod(shape), 0, None))
