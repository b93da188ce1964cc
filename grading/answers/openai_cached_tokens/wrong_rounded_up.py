"""Wrong: a step begun counts whole."""
# mistake: rounded up

import math


def openai_cached_tokens(shared_prefix, minimum=1024, step=128):
    n = shared_prefix
    if n < 0 or minimum < 0 or step < 1:
        raise ValueError("bad sizes")
    return minimum + math.ceil((n - minimum) / step) * step if n >= minimum else 0
