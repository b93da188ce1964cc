"""Wrong: an empty list becomes a float tensor, which is no index."""
# mistake: empty context refused

import torch


def apply_repetition_penalty(logits, context_ids, penalty):
    if penalty <= 0:
        raise ValueError("the penalty must be above 0")
    ids = torch.as_tensor(context_ids)
    if ((ids < 0) | (ids >= len(logits))).any():
        raise ValueError("an id outside the vocabulary")
    out, old = logits.clone(), logits[ids]
    out[ids] = torch.where(old > 0, old / penalty, old * penalty)
    return out
