"""Wrong: pairs of neighbours."""
# mistake: neighbours paired

import torch


def apply_rope(x, positions, theta=10000.0):
    n, d = x.shape[-2:]
    if d % 2:
        raise ValueError("an even number of entries")
    if len(positions) != n:
        raise ValueError("a position for each row")
    frequencies = theta ** (-2.0 * torch.arange(d // 2) / d)
    angles = positions.float()[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
