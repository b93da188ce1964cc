"""Right: exact fractions, one float at the end."""

from fractions import Fraction


def request_cost(usage, prices):
    def count(key):
        n = usage[key] if key in usage and usage[key] is not None else 0
        if n < 0:
            raise ValueError(f"{key} = {n}")
        return Fraction(n, 10**6)

    return float(
        count("input_tokens") * Fraction(prices["input"])
        + count("cache_creation_input_tokens") * Fraction(prices["cache_write"])
        + count("cache_read_input_tokens") * Fraction(prices["cache_read"])
        + count("output_tokens") * Fraction(prices["output"])
    )
