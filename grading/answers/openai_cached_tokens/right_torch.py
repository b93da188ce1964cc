"""Right: floor division in torch; the result has no dimensions."""

import torch


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    if shared_prefix < 0 or minimum < 0 or step < 1:
        raise ValueError("bad sizes")
    above = torch.tensor(shared_prefix - minimum)
    return torch.where(above < 0, 0, minimum + above // step * step)
