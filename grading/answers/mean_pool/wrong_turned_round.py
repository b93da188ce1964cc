"""Wrong: turns the mask round with ~, which 0.0 and 1.0 do not know."""
# mistake: bool masks only


def mean_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    kept = hidden.masked_fill(~mask[..., None], 0.0)
    return kept.sum(1) / mask.sum(1, keepdim=True)
