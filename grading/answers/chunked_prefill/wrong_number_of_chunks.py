"""Wrong: torch.chunk takes the number of chunks, not their size."""
# mistake: chunk_size as a number of chunks

import torch


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    for chunk in torch.chunk(ids, chunk_size):
        logits = model(chunk, cache)
    return logits[-1]
