"""Wrong: does not look at the penalty."""
# mistake: penalty unchecked

import torch


def apply_repetition_penalty(logits, context_ids, penalty):
    ids = torch.as_tensor(context_ids).long()
    if ((ids < 0) | (ids >= len(logits))).any():
        raise ValueError("an id outside the vocabulary")
    out, old = logits.clone(), logits[ids]
    out[ids] = torch.where(old > 0, old / penalty, old * penalty)
    return out
