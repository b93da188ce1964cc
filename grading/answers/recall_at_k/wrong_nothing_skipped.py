"""Wrong: leaves queries with nothing relevant out."""
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
        if not wanted:
            continue
        shares.append(len(set(found[:k]) & set(wanted)) / len(set(wanted)))
    return sum(shares) / len(shares) if shares else 0.0
