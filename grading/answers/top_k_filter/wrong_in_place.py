"""Wrong: writes into the logits that it got."""
# mistake: input changed


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    k = min(k, logits.numel())
    limit = logits.topk(k).values[-1]
    logits[logits < limit] = float("-inf")
    return logits
