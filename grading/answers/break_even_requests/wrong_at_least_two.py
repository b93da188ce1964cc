"""Wrong: begins to look at two requests."""
# mistake: never below 2


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    if w >= 1 and r >= 1:
        raise ValueError("never")
    if w < 1:
        return 2
    n = 2
    while w + (n - 1) * r >= n:
        n += 1
    return n
