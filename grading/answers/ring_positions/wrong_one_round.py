"""Wrong: overwrites every slot once at most."""
# mistake: one round only


def ring_positions(length, window):
    if length < 0 or window < 1:
        raise ValueError("bad sizes")
    slots = [-1] * window
    for p in range(min(length, 2 * window)):
        slots[p % window] = p
    return slots
