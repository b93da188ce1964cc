"""Wrong: the last chunk goes first."""
# mistake: chunks in reverse order


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    for chunk in reversed(ids.split(chunk_size)):
        logits = model(chunk, cache)
    return logits[-1]
