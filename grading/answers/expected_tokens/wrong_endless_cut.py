"""Wrong: the limit of endless drafts, cut at k + 1."""
# mistake: endless draft, cut


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if acceptance == 1:
        return k + 1
    return min(k + 1, 1 / (1 - acceptance))
