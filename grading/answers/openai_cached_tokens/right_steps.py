"""Right: the minimum and whole steps."""


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    if shared_prefix < 0 or minimum < 0 or step < 1:
        raise ValueError("bad sizes")
    if shared_prefix < minimum:
        return 0
    return minimum + (shared_prefix - minimum) // step * step
