"""Right: stores one position after the other."""


def ring_positions(length, window):
    if length < 0 or window < 1:
        raise ValueError("bad sizes")
    slots = [-1] * window
    for p in range(length):
        slots[p % window] = p
    return slots
