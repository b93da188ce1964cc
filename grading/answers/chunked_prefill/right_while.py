"""Right: an index that moves on; the result is a list."""


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    done = 0
    while done < len(ids):
        logits = model(ids[done : done + chunk_size], cache)
        done += chunk_size
    return logits[-1].tolist()
