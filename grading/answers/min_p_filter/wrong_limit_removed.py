"""Wrong: compares with > instead of >=."""
# mistake: limit removed


def min_p_filter(logits, min_p):
    if not 0 <= min_p <= 1:
        raise ValueError("min_p must lie between 0 and 1")
    probs = logits.softmax(-1)
    return logits.masked_fill(probs <= min_p * probs.max(), float("-inf"))
