"""Wrong: adds up in the order of the vocabulary."""
# mistake: not sorted

import torch


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    probs, order = logits.softmax(-1), torch.arange(len(logits))
    kept = probs.cumsum(-1) - probs < p
    out = torch.full_like(logits, float("-inf"))
    out[order[kept]] = logits[order[kept]]
    return out
