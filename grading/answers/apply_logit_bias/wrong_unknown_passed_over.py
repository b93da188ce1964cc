"""Wrong: passes over ids that are too large."""
# mistake: ids unchecked


def apply_logit_bias(logits, bias):
    out = logits.clone()
    for token, number in bias.items():
        if token < 0:
            raise ValueError("a negative id")
        if token < len(logits):
            out[token] += number
    return out
