"""Wrong: no queries give 0."""
# mistake: no queries pass


def recall_at_k(ranked, relevant, k):
    if k < 1:
        raise ValueError("k")
    if len(ranked) != len(relevant):
        raise ValueError("lengths")
    if not all(relevant):
        raise ValueError("nothing relevant")
    shares = []
    for found, wanted in zip(ranked, relevant, strict=True):
        shares.append(len(set(found[:k]) & set(wanted)) / len(set(wanted)))
    return sum(shares) / len(shares) if shares else 0.0
