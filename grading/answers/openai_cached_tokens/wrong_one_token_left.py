"""Wrong: leaves a token to compute, as the rule of a prefix cache."""
# mistake: one token left


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    n = shared_prefix
    if n < 0 or minimum < 0 or step < 1:
        raise ValueError("bad sizes")
    n = max(n - 1, 0)
    return minimum + (n - minimum) // step * step if n >= minimum else 0
