"""Wrong: a negative k gives an empty sum."""
# mistake: k unchecked


def expected_tokens(acceptance, k):
    if acceptance < 0 or acceptance > 1:
        raise ValueError("a probability")
    return float(sum(acceptance**i for i in range(k + 1)))
