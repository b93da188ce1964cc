"""Right: the next whole number above, as a float."""

import numpy as np


def break_even_requests(write_multiplier, read_multiplier):
    if write_multiplier < 1:
        return np.float64(1)
    if not read_multiplier < 1:
        raise ValueError((write_multiplier, read_multiplier))
    return np.ceil((write_multiplier - read_multiplier) / (1 - read_multiplier))
