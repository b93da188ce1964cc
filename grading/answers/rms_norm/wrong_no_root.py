"""Wrong: divides by the mean of the squares."""
# mistake: no root

import torch


def rms_norm(x, weight, eps=1e-5):
    if weight.shape != x.shape[-1:]:
        raise ValueError("one weight for each entry of a row")
    size = torch.mean(x**2, dim=-1, keepdim=True) + eps
    return x / size * weight
