"""Wrong: takes everything above 1 for 1."""
# mistake: p outside passes

import torch


def top_p_filter(logits, p):
    if p <= 0:
        raise ValueError("p must be above 0 and at most 1")
    if p >= 1:
        return logits.clone()
    probs, order = logits.softmax(-1).sort(descending=True)
    kept = probs.cumsum(-1) - probs < p
    out = torch.full_like(logits, float("-inf"))
    out[order[kept]] = logits[order[kept]]
    return out
