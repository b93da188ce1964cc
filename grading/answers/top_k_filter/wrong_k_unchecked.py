"""Wrong: does not look at k: sorted values are counted from the end."""
# mistake: k below 1 passes


def top_k_filter(logits, k):
    falling = logits.sort(descending=True).values
    limit = falling[min(k, len(falling)) - 1]
    return logits.masked_fill(logits < limit, float("-inf"))
