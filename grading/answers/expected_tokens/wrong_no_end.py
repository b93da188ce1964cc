"""Wrong: does not end at the first rejection."""
# mistake: no end at a rejection


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if acceptance == 1:
        return k + 1
    return 1 + k * acceptance
