"""Wrong: lets a mask of another shape broadcast."""
# mistake: shapes unchecked


def mean_pool(hidden, mask):
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    weights = mask.to(hidden.dtype)[..., None]
    return (hidden * weights).sum(1) / weights.sum(1)
