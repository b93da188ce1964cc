"""Wrong: a mask of another shape is as good."""
# mistake: shapes unchecked

import torch


def last_token_pool(hidden, mask):
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    places = ((mask != 0) * torch.arange(mask.shape[1])).argmax(1)
    rows = torch.arange(len(hidden))
    return hidden[rows, places]
