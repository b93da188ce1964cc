"""Wrong: does not look at min_p."""
# mistake: outside passes


def min_p_filter(logits, min_p):
    probs = logits.softmax(-1)
    return logits.masked_fill(probs < min_p * probs.max(), float("-inf"))
