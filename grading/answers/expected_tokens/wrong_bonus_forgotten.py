"""Wrong: k accepted tokens, and no bonus token after them."""
# mistake: bonus forgotten


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if acceptance == 1:
        return max(k, 1)
    if k == 0:
        return 1.0
    return (1 - acceptance**k) / (1 - acceptance)
