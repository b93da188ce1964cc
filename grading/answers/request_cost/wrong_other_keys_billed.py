"""Wrong: every other number counts as input."""
# mistake: other keys billed


def request_cost(usage, prices):
    names = {
        "cache_creation_input_tokens": "cache_write",
        "cache_read_input_tokens": "cache_read",
        "output_tokens": "output",
    }
    total = 0.0
    for key, n in usage.items():
        if isinstance(n, int):
            if n < 0:
                raise ValueError(key)
            total += n * prices[names.get(key, "input")]
    return total / 1e6
