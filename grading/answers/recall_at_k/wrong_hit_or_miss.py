"""Wrong: one hit is enough."""
# mistake: hit or miss


def recall_at_k(ranked, relevant, k):
    if k < 1:
        raise ValueError("k")
    if not ranked:
        raise ValueError("no queries")
    if len(ranked) != len(relevant):
        raise ValueError("lengths")
    if not all(relevant):
        raise ValueError("nothing relevant")
    shares = []
    for found, wanted in zip(ranked, relevant, strict=True):
        shares.append(float(len(set(found[:k]) & set(wanted)) > 0))
    return sum(shares) / len(shares)
