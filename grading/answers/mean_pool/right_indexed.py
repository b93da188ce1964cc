"""Right: picks the tokens of each text with a bool mask."""

import torch


def mean_pool(hidden, mask):
    if mask.ndim != 2 or mask.shape[0] != hidden.shape[0] or mask.shape[1] != hidden.shape[1]:
        raise ValueError("mask")
    keep = mask.bool()
    if not bool(keep.any(dim=1).all()):
        raise ValueError("empty row")
    return torch.stack([vectors[tokens].mean(0) for vectors, tokens in zip(hidden, keep, strict=True)])
