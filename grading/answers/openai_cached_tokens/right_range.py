"""Right: the last of a range."""


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    if shared_prefix < 0 or minimum < 0 or step < 1:
        raise ValueError((shared_prefix, minimum, step))
    sizes = range(minimum, shared_prefix + 1, step)
    return sizes[-1] if sizes else 0
