"""Wrong: sums up to the power of k + 1."""
# mistake: one term too many


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if acceptance == 1:
        return k + 2 if k else 1
    if k == 0:
        return 1.0
    return (1 - acceptance ** (k + 2)) / (1 - acceptance)
