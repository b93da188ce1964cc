"""Wrong: writes into the logits that it got."""
# mistake: input changed


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    probs, order = logits.softmax(-1).sort(descending=True)
    kept = probs.cumsum(-1) - probs < p
    logits[order[~kept]] = float("-inf")
    return logits
