"""Wrong: a document of zeros comes last, with -1."""
# mistake: zero vectors

import torch.nn.functional as F


def cosine_top_k(query, docs, k):
    if docs.shape[1] != len(query):
        raise ValueError("widths")
    if not 1 <= k <= len(docs):
        raise ValueError("k")
    scores = (F.normalize(docs, dim=1) @ F.normalize(query, dim=0)).masked_fill(~docs.any(1), -1.0)
    best = scores.topk(k)
    return best.values, best.indices
