"""Wrong: takes the mean away, like LayerNorm."""
# mistake: centred

import torch


def rms_norm(x, weight, eps=1e-5):
    if weight.shape != x.shape[-1:]:
        raise ValueError("one weight for each entry of a row")
    x = x - x.mean(dim=-1, keepdim=True)
    size = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + eps)
    return x / size * weight
