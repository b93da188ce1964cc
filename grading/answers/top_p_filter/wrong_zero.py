"""Wrong: a removed token gets 0."""
# mistake: removed is a number

import torch


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    probs, order = logits.softmax(-1).sort(descending=True)
    kept = probs.cumsum(-1) - probs < p
    out = torch.zeros_like(logits)
    out[order[kept]] = logits[order[kept]]
    return out
