"""Wrong: uses the decision in sorted order for the unsorted logits."""
# mistake: places not restored


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    probs, _ = logits.softmax(-1).sort(descending=True)
    kept = probs.cumsum(-1) - probs < p
    return logits.masked_fill(~kept, float("-inf"))
