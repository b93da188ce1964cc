"""Wrong: dot products."""
# mistake: dot products


def cosine_top_k(query, docs, k):
    if docs.shape[1] != len(query):
        raise ValueError("widths")
    if not 1 <= k <= len(docs):
        raise ValueError("k")
    best = (docs @ query).topk(k)
    return best.values, best.indices
