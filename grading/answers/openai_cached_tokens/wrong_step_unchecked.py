"""Wrong: a step of 0 divides by zero, or nobody notices it."""
# mistake: bad values pass


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    n = shared_prefix
    if n < 0 or minimum < 0:
        raise ValueError("bad sizes")
    return minimum + (n - minimum) // step * step if n >= minimum else 0
