"""Wrong: adds 1 to the weights, as some models do."""
# mistake: 1 added to the weights

import torch


def rms_norm(x, weight, eps=1e-5):
    if weight.shape != x.shape[-1:]:
        raise ValueError("one weight for each entry of a row")
    size = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + eps)
    return x / size * (1 + weight)
