"""Right: float32 all through, with p = 1 apart."""

import torch


def top_p_filter(logits, p):
    if p > 1 or p <= 0:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1.0:
        return logits
    order = logits.float().argsort(descending=True)
    probs = logits.float().softmax(0)[order]
    size = int((probs.cumsum(0) < p).sum()) + 1
    out = torch.full(logits.shape, -torch.inf)
    out[order[:size]] = logits[order[:size]]
    return out
