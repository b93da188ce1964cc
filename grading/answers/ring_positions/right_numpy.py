"""Right: the held positions put into their slots, as an array."""

import numpy as np


def ring_positions(length, window):
    if window < 1 or length < 0:
        raise ValueError("a ring has a slot, a length is not negative")
    ring = np.full(window, -1)
    held = np.arange(max(0, length - window), length)
    ring[held % window] = held
    return ring
