"""Wrong: topk does not take more than there are."""
# mistake: k beyond V refused


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    return logits.masked_fill(logits < logits.topk(k).values[-1], float("-inf"))
