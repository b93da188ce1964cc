"""Right: the short chunk goes first."""


def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError("no ids, or no chunk_size")
    first = len(ids) % chunk_size
    pieces = [ids[:first]] if first else []
    pieces += list(ids[first:].reshape(-1, chunk_size))
    return [model(piece, cache) for piece in pieces][-1][-1]
