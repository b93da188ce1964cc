"""Wrong: a window of 0 gives an empty list."""
# mistake: windows below 1 pass


def ring_positions(length, window):
    if length < 0 or window < 0:
        raise ValueError("bad sizes")
    if window == 0:
        return []
    slots = [-1] * window
    for p in range(length):
        slots[p % window] = p
    return slots
