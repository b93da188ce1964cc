"""Wrong: the mean of the tokens."""
# mistake: mean


def last_token_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    weights = (mask != 0).to(hidden.dtype)[..., None]
    return (hidden * weights).sum(1) / weights.sum(1)
