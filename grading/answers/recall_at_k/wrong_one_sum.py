"""Wrong: all hits of all queries divided by all relevant ids."""
# mistake: one sum over all queries


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
        shares.append(len(set(found[:k]) & set(wanted)))
    return sum(shares) / sum(len(set(wanted)) for wanted in relevant)
