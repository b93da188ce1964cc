"""Wrong: refuses numbers below 0 only."""
# mistake: outside passes


def min_p_filter(logits, min_p):
    if min_p < 0:
        raise ValueError("min_p must lie between 0 and 1")
    probs = logits.softmax(-1)
    return logits.masked_fill(probs < min_p * probs.max(), float("-inf"))
