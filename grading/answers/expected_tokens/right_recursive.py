"""Right: one token, and with the chance of acceptance a round with a shorter draft."""

import torch


def expected_tokens(acceptance, k):
    if not (torch.tensor(acceptance) >= 0 and torch.tensor(acceptance) <= 1 and k >= 0):
        raise ValueError("out of range")
    return torch.tensor(1.0) if k == 0 else 1 + acceptance * expected_tokens(acceptance, k - 1)
