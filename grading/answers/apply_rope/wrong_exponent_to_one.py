"""Wrong: the exponents run from 0 to 1."""
# mistake: exponent reaches 1

import torch


def apply_rope(x, positions, theta=10000.0):
    n, d = x.shape[-2:]
    if d % 2:
        raise ValueError("an even number of entries")
    if len(positions) != n:
        raise ValueError("a position for each row")
    frequencies = theta ** -torch.linspace(0, 1, d // 2)
    angles = positions.float()[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
