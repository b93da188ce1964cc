"""Wrong: looks at neither length."""
# mistake: lengths and queries unchecked


def recall_at_k(ranked, relevant, k):
    if k < 1:
        raise ValueError("k")
    if not all(relevant):
        raise ValueError("nothing relevant")
    shares = []
    for found, wanted in zip(ranked, relevant, strict=False):
        shares.append(len(set(found[:k]) & set(wanted)) / len(set(wanted)))
    return sum(shares) / len(shares)
