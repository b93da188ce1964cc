"""Wrong: argmax of the mask is the first token."""
# mistake: first token

import torch


def last_token_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    rows = torch.arange(len(hidden))
    return hidden[rows, (mask != 0).int().argmax(1)]
