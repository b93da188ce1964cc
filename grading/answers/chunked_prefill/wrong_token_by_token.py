"""Wrong: one call for each token."""
# mistake: one token per call


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    for i in range(len(ids)):
        logits = model(ids[i : i + 1], cache)
    return logits[-1]
