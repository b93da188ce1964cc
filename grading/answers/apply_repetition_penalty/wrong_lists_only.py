"""Wrong: asks the context for a method that a tensor does not have."""
# mistake: lists only


def apply_repetition_penalty(logits, context_ids, penalty):
    if penalty <= 0:
        raise ValueError("the penalty must be above 0")
    context = context_ids.copy()
    out = logits.clone()
    for token in set(context):
        if not 0 <= token < len(out):
            raise ValueError("an id outside the vocabulary")
        out[token] = out[token] / penalty if out[token] > 0 else out[token] * penalty
    return out
