"""Right: rolls the held positions, in torch."""

import torch


def ring_positions(length, window):
    if length < 0 or window <= 0:
        raise ValueError((length, window))
    if length < window:
        return torch.cat([torch.arange(length), torch.full((window - length,), -1)])
    return torch.arange(length - window, length).roll(length % window)
