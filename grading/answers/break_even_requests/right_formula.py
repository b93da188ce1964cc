"""Right: solved for n."""

import math


def break_even_requests(write_multiplier, read_multiplier):
    if write_multiplier < 1:
        return 1
    gain = 1 - read_multiplier
    if gain <= 0:
        raise ValueError("nothing is won back")
    return 1 + math.floor((write_multiplier - 1) / gain) + 1
