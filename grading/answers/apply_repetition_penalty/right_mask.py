"""Right: a mask of the tokens seen, in torch."""

import torch


def apply_repetition_penalty(logits, context_ids, penalty):
    if penalty <= 0:
        raise ValueError("the penalty must be above 0")
    ids = torch.as_tensor(context_ids).long()
    if ids.numel() and (ids.min() < 0 or ids.max() >= logits.numel()):
        raise ValueError("an id outside the vocabulary")
    seen = torch.zeros_like(logits, dtype=torch.bool)
    seen[ids] = True
    changed = torch.where(logits < 0, logits * penalty, logits / penalty)
    return torch.where(seen, changed, logits)
