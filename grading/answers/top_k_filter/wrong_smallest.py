"""Wrong: sorted upwards, cut from the front."""
# mistake: smallest kept


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    k = min(k, logits.numel())
    limit = logits.sort().values[k - 1]
    return logits.masked_fill(logits > limit, float("-inf"))
