"""Wrong: adds up logits instead of probabilities."""
# mistake: logits summed

import torch


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    falling, order = logits.sort(descending=True)
    kept = falling.cumsum(-1) - falling < p
    out = torch.full_like(logits, float("-inf"))
    out[order[kept]] = logits[order[kept]]
    return out
