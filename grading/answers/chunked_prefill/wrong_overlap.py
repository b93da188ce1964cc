"""Wrong: each chunk begins with the last token of the one before."""
# mistake: chunks overlap


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    for begin in range(0, len(ids), chunk_size):
        logits = model(ids[max(begin - 1, 0) : begin + chunk_size], cache)
    return logits[-1]
