"""Wrong: one call more than needed when chunk_size divides n."""
# mistake: an empty call at the end


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    for i in range(len(ids) // chunk_size + 1):
        logits = model(ids[i * chunk_size : (i + 1) * chunk_size], cache)
        if len(logits):
            last = logits[-1]
    return last
