"""Wrong: no eps."""
# mistake: no eps

import torch


def rms_norm(x, weight, eps=1e-5):
    if weight.shape != x.shape[-1:]:
        raise ValueError("one weight for each entry of a row")
    size = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True))
    return x / size * weight
