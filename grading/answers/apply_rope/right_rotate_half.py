"""Right: as in transformers, with tables as wide as x."""

import torch


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def apply_rope(x, positions, theta=10000.0):
    d = x.shape[-1]
    if d % 2 or positions.shape != x.shape[-2:-1]:
        raise ValueError("shape")
    inverse = 1.0 / (theta ** (torch.arange(0, d, 2, dtype=torch.float64) / d))
    angles = torch.outer(positions.double(), inverse)
    table = torch.cat((angles, angles), dim=-1)
    return x * table.cos() + rotate_half(x) * table.sin()
