"""Wrong: overwrites the padding in place."""
# mistake: hidden changed

import torch


def last_token_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    hidden[mask == 0] = 0.0
    places = ((mask != 0) * torch.arange(mask.shape[1])).argmax(1)
    rows = torch.arange(len(hidden))
    return hidden[rows, places]
