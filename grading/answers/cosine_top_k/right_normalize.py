"""Right: unit vectors, one product, topk."""

import torch
import torch.nn.functional as F


def cosine_top_k(query, docs, k):
    if docs.shape[1] != query.shape[0]:
        raise ValueError("widths")
    if k < 1 or k > docs.shape[0]:
        raise ValueError("k")
    return torch.topk(F.normalize(docs, dim=1) @ F.normalize(query, dim=0), k)
