"""Right: a float32 tensor without dimensions."""

import torch


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    for rate in (peak_flops, bandwidth):
        if rate <= 0:
            raise ValueError(f"{rate} is no rate")
    return torch.maximum(torch.tensor(flops / peak_flops), torch.tensor(bytes_moved / bandwidth))
