"""Wrong: shortens the documents in place."""
# mistake: documents changed

import torch.nn.functional as F


def cosine_top_k(query, docs, k):
    if docs.shape[1] != len(query):
        raise ValueError("widths")
    if not 1 <= k <= len(docs):
        raise ValueError("k")
    docs /= docs.norm(dim=1, keepdim=True).clamp(min=1e-12)
    best = (docs @ F.normalize(query, dim=0)).topk(k)
    return best.values, best.indices
