"""Wrong: an id that length does not need is refused."""
# mistake: all ids checked

import torch


def paged_gather(pool, block_table, length):
    n_blocks, block_size = pool.shape[:2]
    ids = torch.as_tensor(block_table, dtype=torch.long)
    if length < 0 or length > len(ids) * block_size:
        raise ValueError("the table does not hold that many tokens")
    if ((ids < 0) | (ids >= n_blocks)).any():
        raise ValueError("an id that is no block")
    return pool[ids].flatten(0, 1)[:length]
