"""Right: rounds first, and goes back a block when nothing would be left to compute."""

from itertools import takewhile


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("a block holds a token")
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(stored, prompt, strict=False)))
    whole = common // block * block
    return whole - block if whole and whole == len(prompt) else whole
