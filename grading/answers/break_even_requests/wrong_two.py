"""Wrong: knows one provider's number."""
# mistake: fixed number


def break_even_requests(write_multiplier, read_multiplier):
    w, r = write_multiplier, read_multiplier
    if w < 1:
        return 1
    if r >= 1:
        raise ValueError("never")
    return 2
