"""Wrong: a set of tensors holds equal ids several times."""
# mistake: once per occurrence


def apply_repetition_penalty(logits, context_ids, penalty):
    if penalty <= 0:
        raise ValueError("the penalty must be above 0")
    out = logits.clone()
    for token in set(context_ids):
        if not 0 <= token < len(out):
            raise ValueError("an id outside the vocabulary")
        out[token] = out[token] / penalty if out[token] > 0 else out[token] * penalty
    return out
