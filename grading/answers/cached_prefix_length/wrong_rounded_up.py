"""Wrong: takes a block that agrees only in part."""
# mistake: rounded up

import math


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    n = 0
    while n < len(stored) and n < len(prompt) and stored[n] == prompt[n]:
        n += 1
    n = max(0, min(n, len(prompt) - 1))
    return math.ceil(n / block) * block
