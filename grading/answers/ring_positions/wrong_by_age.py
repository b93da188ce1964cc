"""Wrong: the oldest position first."""
# mistake: by age


def ring_positions(length, window):
    if length < 0 or window < 1:
        raise ValueError("bad sizes")
    slots = [-1] * window
    for p in range(length):
        slots[p % window] = p
    held = sorted(p for p in slots if p >= 0)
    return held + [-1] * (window - len(held))
