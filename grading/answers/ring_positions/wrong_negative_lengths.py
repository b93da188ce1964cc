"""Wrong: a negative length is an empty ring."""
# mistake: negative lengths pass


def ring_positions(length, window):
    if window < 1:
        raise ValueError("bad sizes")
    slots = [-1] * window
    for p in range(length):
        slots[p % window] = p
    return slots
