"""Right: the largest place that holds a token."""

import torch


def last_token_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    places = torch.where(mask != 0, torch.arange(mask.shape[1]), -1).amax(1)
    if (places < 0).any():
        raise ValueError("a text has no token")
    return hidden[torch.arange(hidden.shape[0]), places]
