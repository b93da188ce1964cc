"""Wrong: only the kept logits come back."""
# mistake: not in their places


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    k = min(k, logits.numel())
    limit = logits.topk(k).values[-1]
    return logits[logits >= limit]
