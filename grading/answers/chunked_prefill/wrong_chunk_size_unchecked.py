"""Wrong: range refuses a step of 0 by itself, a negative one makes no step."""
# mistake: chunk_size unchecked


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0:
        raise ValueError("no ids")
    for begin in range(0, len(ids), chunk_size):
        logits = model(ids[begin : begin + chunk_size], cache)
    return logits[-1]
