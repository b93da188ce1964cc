"""Wrong: stores one position more."""
# mistake: one position too far


def ring_positions(length, window):
    if length < 0 or window < 1:
        raise ValueError("bad sizes")
    slots = [-1] * window
    for p in range(length + 1):
        slots[p % window] = p
    return slots
