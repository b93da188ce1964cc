"""Right: the pool as one long list of slots; computes the slot of each token."""

import torch


def paged_gather(pool, block_table, length):
    if length < 0:
        raise ValueError("negative length")
    slots = pool.flatten(0, 1)
    size = pool.shape[1]
    table = torch.as_tensor(block_table).long()
    token = torch.arange(length)
    if len(table) * size < length:
        raise ValueError("the table ends before the sequence")
    block = table[token // size]
    if length and not (block.min() >= 0 and block.max() < pool.shape[0]):
        raise ValueError("an id outside the pool")
    return slots.index_select(0, block * size + token % size)
