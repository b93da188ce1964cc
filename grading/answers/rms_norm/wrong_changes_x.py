"""Wrong: divides in place."""
# mistake: inputs changed

import torch


def rms_norm(x, weight, eps=1e-5):
    if weight.shape != x.shape[-1:]:
        raise ValueError("one weight for each entry of a row")
    size = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + eps)
    return x.div_(size) * weight
