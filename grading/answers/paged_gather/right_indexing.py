"""Right: indexes the pool with the table and cuts."""

import torch


def paged_gather(pool, block_table, length):
    n_blocks, size = pool.shape[:2]
    table = [int(block) for block in block_table]
    needed = (length + size - 1) // size
    if length < 0:
        raise ValueError("a negative length")
    if needed > len(table):
        raise ValueError("the table is too short")
    table = table[:needed]
    if any(block < 0 or block >= n_blocks for block in table):
        raise ValueError("no such block")
    rows = pool[torch.tensor(table, dtype=torch.long)]
    return rows.reshape(-1, *pool.shape[2:])[:length]
