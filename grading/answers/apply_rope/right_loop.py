"""Right: row by row and pair by pair."""

import math

import torch


def apply_rope(x, positions, theta=10000.0):
    if x.shape[-1] % 2 == 1:
        raise ValueError("no pairs")
    half = x.shape[-1] // 2
    if len(positions) != x.shape[-2]:
        raise ValueError("positions")
    out = torch.empty_like(x)
    for row, position in enumerate(positions.tolist()):
        for i in range(half):
            angle = position * theta ** (-i / half)
            a, b = x[..., row, i], x[..., row, i + half]
            out[..., row, i] = a * math.cos(angle) - b * math.sin(angle)
            out[..., row, i + half] = b * math.cos(angle) + a * math.sin(angle)
    return out
