"""Wrong: has steps and no minimum."""
# mistake: no minimum


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    n = shared_prefix
    if n < 0 or minimum < 0 or step < 1:
        raise ValueError("bad sizes")
    return minimum % step + (n - minimum % step) // step * step if n >= minimum % step else 0
