"""Wrong: the place of the first text for all."""
# mistake: first row's place for all


def last_token_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    return hidden[:, int((mask[0] != 0).nonzero().max())]
