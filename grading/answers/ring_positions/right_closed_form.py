"""Right: the newest position of each slot, without a loop over positions."""


def ring_positions(length, window):
    if length < 0:
        raise ValueError("length")
    if window < 1:
        raise ValueError("window")
    newest = length - 1
    return [max(newest - (newest - slot) % window, -1) for slot in range(window)]
