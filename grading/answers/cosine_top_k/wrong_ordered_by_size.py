"""Wrong: orders by the size of the score, and keeps the sign."""
# mistake: ordered by size

import torch.nn.functional as F


def cosine_top_k(query, docs, k):
    if docs.shape[1] != len(query):
        raise ValueError("widths")
    if not 1 <= k <= len(docs):
        raise ValueError("k")
    scores = F.normalize(docs, dim=1) @ F.normalize(query, dim=0)
    order = scores.abs().argsort(descending=True)[:k]
    return scores[order], order
