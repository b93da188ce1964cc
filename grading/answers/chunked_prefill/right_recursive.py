"""Right: everything but the last chunk first, then the last one."""


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    rest = len(ids) % chunk_size or chunk_size
    if rest < len(ids):
        chunked_prefill(model, ids[:-rest], chunk_size, cache)
    return model(ids[-rest:], cache)[-1]
