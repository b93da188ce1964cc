"""Wrong: the last chunk is filled up with 0."""
# mistake: padded

import torch


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    missing = -len(ids) % chunk_size
    padded = torch.cat([ids, torch.zeros(missing, dtype=torch.long)])
    for chunk in padded.split(chunk_size):
        logits = model(chunk, cache)
    return logits[-1]
