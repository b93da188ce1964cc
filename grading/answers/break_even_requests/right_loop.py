"""Right: request by request."""


def break_even_requests(write_multiplier, read_multiplier):
    if write_multiplier >= 1 and read_multiplier >= 1:
        raise ValueError("caching never pays")
    n, with_cache = 1, write_multiplier
    while with_cache >= n:
        n += 1
        with_cache += read_multiplier
    return n
