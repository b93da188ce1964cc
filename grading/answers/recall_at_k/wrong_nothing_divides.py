"""Wrong: divides by no relevant ids."""
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
        shares.append(len(set(found[:k]) & set(wanted)) / len(set(wanted)))
    return sum(shares) / len(shares)
