"""Wrong: the k-th is taken for number k, counting from 0."""
# mistake: one too many


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    k = min(k, logits.numel())
    limit = logits.sort(descending=True).values[min(k, len(logits) - 1)]
    return logits.masked_fill(logits < limit, float("-inf"))
