"""Wrong: writes into the logits that it got."""
# mistake: input changed

import torch


def apply_repetition_penalty(logits, context_ids, penalty):
    if penalty <= 0:
        raise ValueError("the penalty must be above 0")
    ids = torch.as_tensor(context_ids).long()
    if ((ids < 0) | (ids >= len(logits))).any():
        raise ValueError("an id outside the vocabulary")
    old = logits[ids]
    logits[ids] = torch.where(old > 0, old / penalty, old * penalty)
    return logits
