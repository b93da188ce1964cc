"""Wrong: the closed form alone."""
# mistake: acceptance 1


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if k == 0:
        return 1.0
    return (1 - acceptance ** (k + 1)) / (1 - acceptance)
