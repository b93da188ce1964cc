"""Wrong: refuses every dear read, also where the write alone pays."""
# mistake: dear reads refused

import math


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    if r >= 1:
        raise ValueError("never")
    if w < 1:
        return 1
    return math.floor((w - r) / (1 - r)) + 1
