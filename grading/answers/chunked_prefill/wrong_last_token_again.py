"""Wrong: the last token is fed once more to get its logits."""
# mistake: last token again


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    for chunk in ids.split(chunk_size):
        model(chunk, cache)
    return model(ids[-1:], cache)[-1]
