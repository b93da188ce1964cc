"""Wrong: the closed form without a lower limit."""
# mistake: empty slots negative


def ring_positions(length, window):
    if length < 0 or window < 1:
        raise ValueError("bad sizes")
    newest = length - 1
    return [newest - (newest - slot) % window for slot in range(window)]
