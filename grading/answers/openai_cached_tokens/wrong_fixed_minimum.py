"""Wrong: takes 1,024 for the minimum."""
# mistake: minimum ignored


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    n = shared_prefix
    if n < 0 or minimum < 0 or step < 1:
        raise ValueError("bad sizes")
    return 1024 + (n - 1024) // step * step if n >= 1024 else 0
