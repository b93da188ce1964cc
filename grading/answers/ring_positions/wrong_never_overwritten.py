"""Wrong: stops when the ring is full."""
# mistake: never overwritten


def ring_positions(length, window):
    if length < 0 or window < 1:
        raise ValueError("bad sizes")
    slots = [-1] * window
    for p in range(min(length, window)):
        slots[p % window] = p
    return slots
