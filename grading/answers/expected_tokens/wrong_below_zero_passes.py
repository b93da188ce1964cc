"""Wrong: an acceptance below 0 passes."""
# mistake: acceptance unchecked


def expected_tokens(acceptance, k):
    if acceptance > 1:
        raise ValueError("a probability")
    if k < 0:
        raise ValueError("a length")
    if acceptance == 1:
        return k + 1
    return (1 - acceptance ** (k + 1)) / (1 - acceptance)
