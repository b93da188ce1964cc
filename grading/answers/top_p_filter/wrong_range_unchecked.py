"""Wrong: does not look at p."""
# mistake: p outside passes

import torch


def top_p_filter(logits, p):
    if p == 1:
        return logits.clone()
    probs, order = logits.softmax(-1).sort(descending=True)
    kept = probs.cumsum(-1) - probs < p
    out = torch.full_like(logits, float("-inf"))
    out[order[kept]] = logits[order[kept]]
    return out
