"""Right: torch.topk gives the k-th value, masked_fill removes what is below."""


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    values, _ = logits.topk(min(k, logits.numel()))
    return logits.masked_fill(logits < values[-1], float("-inf"))
