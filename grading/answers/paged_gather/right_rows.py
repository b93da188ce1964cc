"""Right: one row at a time, float64."""

import numpy as np


def paged_gather(pool, block_table, length):
    blocks = np.asarray(pool, dtype=np.float64)
    n_blocks, size = blocks.shape[:2]
    if length < 0 or length > len(block_table) * size:
        raise ValueError(f"{length} tokens do not fit")
    out = np.zeros((length, *blocks.shape[2:]))
    for i in range(length):
        block = int(block_table[i // size])
        if block not in range(n_blocks):
            raise ValueError(f"block {block}")
        out[i] = blocks[block, i % size]
    return out
