"""Wrong: sets the logit."""
# mistake: replaced


def apply_logit_bias(logits, bias):
    out = logits.clone()
    for token, number in bias.items():
        if not 0 <= token < len(logits):
            raise ValueError("an id outside the vocabulary")
        out[token] = number
    return out
