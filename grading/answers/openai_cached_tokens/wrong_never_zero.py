"""Wrong: the minimum is always cached."""
# mistake: never 0


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    n = shared_prefix
    if n < 0 or minimum < 0 or step < 1:
        raise ValueError("bad sizes")
    return minimum + max(0, n - minimum) // step * step
