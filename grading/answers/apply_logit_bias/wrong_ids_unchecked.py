"""Wrong: leaves the ids to torch: an IndexError, and negative ones from the end."""
# mistake: ids unchecked


def apply_logit_bias(logits, bias):
    out = logits.clone()
    for token, number in bias.items():
        out[token] += number
    return out
