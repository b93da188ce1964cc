"""Wrong: rounds to whole tokens."""
# mistake: rounded


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if acceptance == 1:
        return k + 1
    return round((1 - acceptance ** (k + 1)) / (1 - acceptance))
