"""Wrong: takes 0 for a switch that is off."""
# mistake: k below 1 passes


def top_k_filter(logits, k):
    if k == 0:
        return logits.clone()
    if k < 0:
        raise ValueError("k is negative")
    limit = logits.topk(min(k, len(logits))).values[-1]
    return logits.masked_fill(logits < limit, float("-inf"))
