"""Wrong: divides by a length of 0."""
# mistake: zero vectors


def cosine_top_k(query, docs, k):
    if docs.shape[1] != len(query):
        raise ValueError("widths")
    if not 1 <= k <= len(docs):
        raise ValueError("k")
    best = (docs @ query / (docs.norm(dim=1) * query.norm())).topk(k)
    return best.values, best.indices
