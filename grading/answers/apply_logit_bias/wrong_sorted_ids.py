"""Wrong: sorts the ids but not the numbers."""
# mistake: numbers mixed up


def apply_logit_bias(logits, bias):
    out = logits.clone()
    for token, number in zip(sorted(bias), bias.values(), strict=True):
        if not 0 <= token < len(logits):
            raise ValueError("an id outside the vocabulary")
        out[token] += number
    return out
