"""Wrong: a share of the largest logit."""
# mistake: logits compared


def min_p_filter(logits, min_p):
    if not 0 <= min_p <= 1:
        raise ValueError("min_p must lie between 0 and 1")
    return logits.masked_fill(logits < min_p * logits.max(), float("-inf"))
