"""Wrong: a text without a token gives its last place."""
# mistake: empty rows pass

import torch


def last_token_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    rows = torch.arange(len(hidden))
    return hidden[rows, mask.long().argmin(1) - 1]
