"""Wrong: looks at a hundred requests only."""
# mistake: gives up


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    for n in range(1, 101):
        if w + (n - 1) * r < n:
            return n
    raise ValueError("never")
