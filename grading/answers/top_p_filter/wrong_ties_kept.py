"""Wrong: takes the probability of the crossing token as a limit for all."""
# mistake: ties kept

import torch


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    probs, order = logits.softmax(-1).sort(descending=True)
    size = int((probs.cumsum(-1) < p).sum()) + 1
    kept = probs >= probs[size - 1]
    out = torch.full_like(logits, float("-inf"))
    out[order[kept]] = logits[order[kept]]
    return out
