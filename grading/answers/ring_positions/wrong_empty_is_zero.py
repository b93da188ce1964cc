"""Wrong: an empty slot is 0."""
# mistake: empty is 0


def ring_positions(length, window):
    if length < 0 or window < 1:
        raise ValueError("bad sizes")
    slots = [0] * window
    for p in range(length):
        slots[p % window] = p
    return slots
