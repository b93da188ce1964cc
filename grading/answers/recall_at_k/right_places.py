"""Right: looks every relevant id up in the ranking."""

from fractions import Fraction


def recall_at_k(ranked, relevant, k):
    if k < 1:
        raise ValueError(f"k = {k}")
    if len(ranked) != len(relevant) or not ranked:
        raise ValueError("lists")
    shares = []
    for found, wanted in zip(ranked, relevant, strict=True):
        ids = list(dict.fromkeys(wanted))
        if not ids:
            raise ValueError("nothing relevant")
        shares.append(Fraction(sum(doc in found and found.index(doc) < k for doc in ids), len(ids)))
    return float(sum(shares) / len(shares))
