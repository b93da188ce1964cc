"""Wrong: eps is 1e-6 when none is given."""
# mistake: another default

import torch


def rms_norm(x, weight, eps=1e-6):
    if weight.shape != x.shape[-1:]:
        raise ValueError("one weight for each entry of a row")
    size = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + eps)
    return x / size * weight
