"""Wrong: the k-th of the different values."""
# mistake: different values


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    k = min(k, logits.numel())
    kinds = logits.unique().flip(0)
    return logits.masked_fill(logits < kinds[min(k, len(kinds)) - 1], float("-inf"))
