"""Wrong: counts the reads only, not the request that writes."""
# mistake: one request too few

import math


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    if w < 1:
        return 1
    if r >= 1:
        raise ValueError("never")
    return max(1, math.floor((w - 1) / (1 - r)) + 1)
