"""Wrong: does not ask whether it pays at all."""
# mistake: a number for never

import math


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    if w < 1:
        return 1
    return math.floor((w - r) / (1 - r)) + 1
