"""Wrong: one weight for all passes."""
# mistake: weight unchecked

import torch


def rms_norm(x, weight, eps=1e-5):
    if weight.dim() != 1 or len(weight) not in (1, x.shape[-1]):
        raise ValueError("one weight for each entry of a row")
    size = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + eps)
    return x / size * weight
