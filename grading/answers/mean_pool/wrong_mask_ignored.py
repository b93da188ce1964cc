"""Wrong: the mean of all places."""
# mistake: mask ignored


def mean_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    return hidden.mean(1)
