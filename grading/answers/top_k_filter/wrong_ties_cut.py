"""Wrong: keeps exactly the k indices that topk names."""
# mistake: ties cut

import torch


def top_k_filter(logits, k):
    if k < 1:
        raise ValueError("k must be at least 1")
    k = min(k, logits.numel())
    kept = logits.topk(k).indices
    out = torch.full_like(logits, float("-inf"))
    out[kept] = logits[kept]
    return out
