"""Wrong: starts an empty ring with each round."""
# mistake: slots after the wrap lost


def ring_positions(length, window):
    if length < 0 or window < 1:
        raise ValueError("bad sizes")
    slots = [-1] * window
    for p in range(length):
        if p % window == 0:
            slots = [-1] * window
        slots[p % window] = p
    return slots
