"""Wrong: all tokens at once, whatever chunk_size says."""
# mistake: one call


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    return model(ids, cache)[-1]
