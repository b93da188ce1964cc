"""Wrong: a k that is too large gives a shorter list."""
# mistake: k unchecked

import torch.nn.functional as F


def cosine_top_k(query, docs, k):
    if docs.shape[1] != len(query):
        raise ValueError("widths")
    if k < 1:
        raise ValueError("k")
    best = (F.normalize(docs, dim=1) @ F.normalize(query, dim=0)).sort(descending=True)
    return best.values[:k], best.indices[:k]
