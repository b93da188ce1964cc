"""Wrong: the last token gets a call of its own."""
# mistake: last token apart


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    for begin in range(0, len(ids) - 1, chunk_size):
        model(ids[begin : min(begin + chunk_size, len(ids) - 1)], cache)
    return model(ids[-1:], cache)[-1]
