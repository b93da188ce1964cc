"""Wrong: -100 as a ban."""
# mistake: minus infinity


def apply_logit_bias(logits, bias):
    out = logits.clone()
    for token, number in bias.items():
        if not 0 <= token < len(logits):
            raise ValueError("an id outside the vocabulary")
        out[token] += float("-inf") if number <= -100 else number
    return out
