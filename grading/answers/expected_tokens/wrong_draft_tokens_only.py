"""Wrong: counts the accepted tokens only."""
# mistake: draft tokens only


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if acceptance == 1:
        return k
    return acceptance * (1 - acceptance**k) / (1 - acceptance)
