"""Wrong: one write and one read, however many requests."""
# mistake: later reads for nothing

import math


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    if w < 1:
        return 1
    if r >= 1:
        raise ValueError("never")
    return math.floor(w + r) + 1
