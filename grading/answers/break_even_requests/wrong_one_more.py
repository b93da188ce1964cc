"""Wrong: rounds up and adds one more."""
# mistake: one request too many

import math


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    if w < 1:
        return 1
    if r >= 1:
        raise ValueError("never")
    return math.ceil((w - r) / (1 - r)) + 1
