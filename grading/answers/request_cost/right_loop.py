"""Right: four products."""


def request_cost(usage, prices):
    pairs = [
        ("input_tokens", "input"),
        ("cache_creation_input_tokens", "cache_write"),
        ("cache_read_input_tokens", "cache_read"),
        ("output_tokens", "output"),
    ]
    total = 0.0
    for key, price in pairs:
        n = usage.get(key)
        if n is None:
            continue
        if n < 0:
            raise ValueError(key)
        total = total + n * prices[price]
    return total / 1_000_000
