"""Wrong: keeps tokens of at least 1 - p."""
# mistake: p as a limit for one token


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    return logits.masked_fill(logits.softmax(-1) < 1 - p, float("-inf"))
