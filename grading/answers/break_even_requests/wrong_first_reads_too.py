"""Wrong: every request pays a read, the first one too."""
# mistake: the first request reads too

import math


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    if w < 1:
        return 1
    if r >= 1:
        raise ValueError("never")
    return math.floor(w / (1 - r)) + 1
