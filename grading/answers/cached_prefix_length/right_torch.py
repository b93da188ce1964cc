"""Right: tensors, and the result is a float with a whole value."""

import torch


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("a block holds a token")
    n = min(len(stored), len(prompt) - 1)
    if n <= 0:
        return 0.0
    differ = (torch.tensor(stored[:n]) != torch.tensor(prompt[:n])).nonzero()
    common = differ[0].item() if len(differ) else n
    return float(common // block * block)
