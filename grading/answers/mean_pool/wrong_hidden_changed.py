"""Wrong: overwrites the padding in place."""
# mistake: hidden changed


def mean_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    hidden[mask == 0] = 0.0
    return hidden.sum(1) / (mask != 0).sum(1, keepdim=True)
