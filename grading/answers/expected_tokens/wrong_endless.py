"""Wrong: the limit of endless drafts."""
# mistake: endless draft


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if acceptance == 1:
        return k + 1
    return 1 / (1 - acceptance) if k > 0 else 1.0
