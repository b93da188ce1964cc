"""Wrong: a text without a token gives its first place."""
# mistake: empty rows pass

import torch


def last_token_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    places = ((mask != 0) * torch.arange(mask.shape[1])).argmax(1)
    rows = torch.arange(len(hidden))
    return hidden[rows, places]
