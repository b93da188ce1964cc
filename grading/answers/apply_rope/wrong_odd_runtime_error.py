"""Wrong: an odd row ends in an error of torch."""
# mistake: odd width unchecked

import torch


def apply_rope(x, positions, theta=10000.0):
    n, d = x.shape[-2:]
    if len(positions) != n:
        raise ValueError("a position for each row")
    frequencies = theta ** (-2.0 * torch.arange(d // 2) / d)
    angles = positions.float()[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
