"""Wrong: position p goes into slot p + 1."""
# mistake: one slot further


def ring_positions(length, window):
    if length < 0 or window < 1:
        raise ValueError("bad sizes")
    slots = [-1] * window
    for p in range(length):
        slots[(p + 1) % window] = p
    return slots
