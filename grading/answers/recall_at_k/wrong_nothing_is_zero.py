"""Wrong: a query with nothing relevant gets 0."""
# mistake: nothing relevant passes


def recall_at_k(ranked, relevant, k):
    if k < 1:
        raise ValueError("k")
    if not ranked:
        raise ValueError("no queries")
    if len(ranked) != len(relevant):
        raise ValueError("lengths")
    shares = []
    for found, wanted in zip(ranked, relevant, strict=True):
        shares.append(len(set(found[:k]) & set(wanted)) / len(set(wanted)) if wanted else 0.0)
    return sum(shares) / len(shares)
