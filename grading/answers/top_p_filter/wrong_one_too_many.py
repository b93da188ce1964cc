"""Wrong: shifts the decision twice."""
# mistake: one too many

import torch


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    probs, order = logits.softmax(-1).sort(descending=True)
    before = probs.cumsum(-1) - probs
    kept = before < p
    kept[1:] = kept[:-1].clone()
    out = torch.full_like(logits, float("-inf"))
    out[order[kept]] = logits[order[kept]]
    return out
