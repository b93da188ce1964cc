"""Wrong: refuses negative numbers and those above 1, not 0."""
# mistake: p outside passes

import torch


def top_p_filter(logits, p):
    if p < 0 or p > 1:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    probs, order = logits.softmax(-1).sort(descending=True)
    kept = probs.cumsum(-1) - probs < p
    kept[0] = True
    out = torch.full_like(logits, float("-inf"))
    out[order[kept]] = logits[order[kept]]
    return out
