"""Wrong: adds the shares up."""
# mistake: not averaged


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
        shares.append(len(set(found[:k]) & set(wanted)) / len(set(wanted)))
    return sum(shares)
