"""Right: a float64 tensor; the result has no dimensions."""

import torch


def request_cost(usage, prices):
    price = {
        "input_tokens": prices["input"],
        "output_tokens": prices["output"],
        "cache_read_input_tokens": prices["cache_read"],
        "cache_creation_input_tokens": prices["cache_write"],
    }
    known = {key: n for key, n in usage.items() if key in price and n is not None}
    if any(n < 0 for n in known.values()):
        raise ValueError("a count is negative")
    return sum((torch.tensor(n * price[key] / 1e6, dtype=torch.float64) for key, n in known.items()), torch.tensor(0.0))
