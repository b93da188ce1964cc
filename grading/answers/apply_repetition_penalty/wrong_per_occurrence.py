"""Wrong: applies the rule at each occurrence."""
# mistake: once per occurrence

import torch


def apply_repetition_penalty(logits, context_ids, penalty):
    if penalty <= 0:
        raise ValueError("the penalty must be above 0")
    ids = torch.as_tensor(context_ids).long()
    if ((ids < 0) | (ids >= len(logits))).any():
        raise ValueError("an id outside the vocabulary")
    out = logits.clone()
    for token in ids.tolist():
        out[token] = out[token] / penalty if out[token] > 0 else out[token] * penalty
    return out
