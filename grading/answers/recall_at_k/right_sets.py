"""Right: sets."""


def recall_at_k(ranked, relevant, k):
    if k < 1 or len(ranked) == 0 or len(ranked) != len(relevant):
        raise ValueError("bad arguments")
    total = 0.0
    for found, wanted in zip(ranked, relevant, strict=True):
        if not wanted:
            raise ValueError("a query with nothing relevant")
        total += len(set(found[:k]) & set(wanted)) / len(set(wanted))
    return total / len(ranked)
