"""Wrong: the mean of the absolute values."""
# mistake: mean of absolute values

import torch


def rms_norm(x, weight, eps=1e-5):
    if weight.shape != x.shape[-1:]:
        raise ValueError("one weight for each entry of a row")
    size = torch.mean(x.abs(), dim=-1, keepdim=True) + eps
    return x / size * weight
