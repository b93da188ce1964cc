"""Wrong: indexes with the mask as it is; 0 and 1 then mean rows 0 and 1."""
# mistake: bool masks only

import torch


def last_token_pool(hidden, mask):
    if mask.shape != hidden.shape[:2]:
        raise ValueError("shapes")
    if not (mask != 0).any(1).all():
        raise ValueError("empty row")
    return torch.stack([h[m][-1] for h, m in zip(hidden, mask, strict=True)])
