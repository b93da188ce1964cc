"""Wrong: checks nothing."""
# mistake: bad values pass


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    n = shared_prefix
    return minimum + (n - minimum) // step * step if n >= minimum else 0
