"""Wrong: a chunk is one token too long."""
# mistake: chunks too long by one


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    for begin in range(0, len(ids), chunk_size + 1):
        logits = model(ids[begin : begin + chunk_size + 1], cache)
    return logits[-1]
