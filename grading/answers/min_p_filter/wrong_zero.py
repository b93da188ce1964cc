"""Wrong: a removed token gets 0."""
# mistake: removed is a number


def min_p_filter(logits, min_p):
    if not 0 <= min_p <= 1:
        raise ValueError("min_p must lie between 0 and 1")
    probs = logits.softmax(-1)
    return logits * (probs >= min_p * probs.max())
