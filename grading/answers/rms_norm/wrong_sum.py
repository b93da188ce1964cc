"""Wrong: divides by the length of the row."""
# mistake: sum of the squares

import torch


def rms_norm(x, weight, eps=1e-5):
    if weight.shape != x.shape[-1:]:
        raise ValueError("one weight for each entry of a row")
    size = torch.sqrt(torch.sum(x**2, dim=-1, keepdim=True) + eps)
    return x / size * weight
