"""Wrong: the documents keep their lengths."""
# mistake: length of the document forgotten

import torch.nn.functional as F


def cosine_top_k(query, docs, k):
    if docs.shape[1] != len(query):
        raise ValueError("widths")
    if not 1 <= k <= len(docs):
        raise ValueError("k")
    best = (docs @ F.normalize(query, dim=0)).topk(k)
    return best.values, best.indices
