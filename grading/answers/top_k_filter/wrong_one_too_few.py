"""Wrong: counts the k-th one place too early."""
# mistake: one too few


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    k = min(k, logits.numel())
    limit = logits.sort(descending=True).values[max(k - 2, 0)]
    return logits.masked_fill(logits < limit, float("-inf"))
