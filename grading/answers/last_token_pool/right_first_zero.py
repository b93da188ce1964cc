"""Right: the first 0 of a row; without one, or with one in front, the end of the row."""

import torch


def last_token_pool(hidden, mask):
    if mask.shape != hidden.shape[:2] or not mask.bool().any(1).all():
        raise ValueError("the mask does not fit")
    return hidden[torch.arange(len(hidden)), mask.int().argmin(1) - 1]
