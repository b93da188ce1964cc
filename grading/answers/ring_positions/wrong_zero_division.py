"""Wrong: a window of 0 ends in a ZeroDivisionError or in an empty list."""
# mistake: windows below 1 pass


def ring_positions(length, window):
    if length < 0:
        raise ValueError("bad sizes")
    slots = [-1] * window
    for p in range(length):
        slots[p % window] = p
    return slots
