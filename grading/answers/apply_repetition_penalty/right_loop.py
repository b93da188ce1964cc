"""Right: a set of plain ints; a list comes back."""


def apply_repetition_penalty(logits, context_ids, penalty):
    if penalty <= 0:
        raise ValueError("the penalty must be above 0")
    out = logits.tolist()
    for token in {int(i) for i in context_ids}:
        if not 0 <= token < len(out):
            raise ValueError(f"no token {token}")
        out[token] = out[token] / penalty if out[token] > 0 else out[token] * penalty
    return out
