"""Wrong: cuts the numbers at 100, as an API does."""
# mistake: cut at 100


def apply_logit_bias(logits, bias):
    out = logits.clone()
    for token, number in bias.items():
        if not 0 <= token < len(logits):
            raise ValueError("an id outside the vocabulary")
        out[token] += max(-100.0, min(100.0, number))
    return out
