"""Wrong: has no price for other keys."""
# mistake: other keys billed


def request_cost(usage, prices):
    names = {
        "input_tokens": "input",
        "cache_creation_input_tokens": "cache_write",
        "cache_read_input_tokens": "cache_read",
        "output_tokens": "output",
    }
    total = 0.0
    for key, n in usage.items():
        price = prices[names[key]]
        if (n or 0) < 0:
            raise ValueError(key)
        total += (n or 0) * price
    return total / 1e6
