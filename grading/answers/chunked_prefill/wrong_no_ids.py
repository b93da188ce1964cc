"""Wrong: no ids are not refused."""
# mistake: no ids pass


def chunked_prefill(model, ids, chunk_size, cache):
    if chunk_size < 1:
        raise ValueError("no chunk_size")
    for begin in range(0, len(ids), chunk_size):
        logits = model(ids[begin : begin + chunk_size], cache)
    return logits[-1]
