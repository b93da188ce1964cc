"""Right: one step after the other."""


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    if min(shared_prefix, minimum) < 0:
        raise ValueError("a number of tokens is not negative")
    if step <= 0:
        raise ValueError("a step goes forward")
    cached = 0
    for size in range(minimum, shared_prefix + 1, step):
        cached = size
    return cached
