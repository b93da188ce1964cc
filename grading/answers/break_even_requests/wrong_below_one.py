"""Wrong: the formula gives 0 or less when a write costs less than a read."""
# mistake: below 1

import math


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    if r >= 1:
        if w < 1:
            return 1
        raise ValueError("never")
    return math.floor((w - r) / (1 - r)) + 1
