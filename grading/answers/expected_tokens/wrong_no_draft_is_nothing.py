"""Wrong: gives 0 for k = 0."""
# mistake: no draft gives 0


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if k == 0:
        return 0.0
    if acceptance == 1:
        return k + 1
    return (1 - acceptance ** (k + 1)) / (1 - acceptance)
