"""Wrong: the k best in the order of their rows."""
# mistake: order of the rows

import torch.nn.functional as F


def cosine_top_k(query, docs, k):
    if docs.shape[1] != len(query):
        raise ValueError("widths")
    if not 1 <= k <= len(docs):
        raise ValueError("k")
    scores = F.normalize(docs, dim=1) @ F.normalize(query, dim=0)
    rows = scores.topk(k).indices.sort().values
    return scores[rows], rows
