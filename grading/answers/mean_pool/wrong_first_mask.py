"""Wrong: the first row's mask for all."""
# mistake: first mask for all


def mean_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    return hidden[:, mask[0] != 0].mean(1)
