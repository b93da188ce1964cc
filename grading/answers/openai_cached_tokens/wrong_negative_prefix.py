"""Wrong: a negative prefix is just below the minimum."""
# mistake: bad values pass


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    n = shared_prefix
    if minimum < 0 or step < 1:
        raise ValueError("bad sizes")
    return minimum + (n - minimum) // step * step if n >= minimum else 0
