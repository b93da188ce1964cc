"""Wrong: takes the padding to stand on the left."""
# mistake: tokens last

import torch


def mean_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    return torch.stack([h[-int(m.sum()) :].mean(0) for h, m in zip(hidden, mask, strict=True)])
