"""Wrong: the query keeps its length."""
# mistake: length of the query forgotten

import torch.nn.functional as F


def cosine_top_k(query, docs, k):
    if docs.shape[1] != len(query):
        raise ValueError("widths")
    if not 1 <= k <= len(docs):
        raise ValueError("k")
    best = (F.normalize(docs, dim=1) @ query).topk(k)
    return best.values, best.indices
