"""Wrong: looks at the step only above the minimum."""
# mistake: bad values pass


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    if shared_prefix < 0 or minimum < 0:
        raise ValueError("bad sizes")
    if shared_prefix < minimum:
        return 0
    if step < 1:
        raise ValueError("bad step")
    return minimum + (shared_prefix - minimum) // step * step
