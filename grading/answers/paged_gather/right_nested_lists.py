"""Right: gives nested lists; for no tokens that is the empty list."""


def paged_gather(pool, block_table, length):
    n_blocks, size = pool.shape[0], pool.shape[1]
    out = []
    if length < 0:
        raise ValueError("length below 0")
    for block in block_table:
        block = int(block)
        if len(out) >= length:
            break
        if not 0 <= block < n_blocks:
            raise ValueError("there is no such block")
        out.extend(pool[block].tolist())
    if len(out) < length:
        raise ValueError("too few blocks")
    return out[:length]
