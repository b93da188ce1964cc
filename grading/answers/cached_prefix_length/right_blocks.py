"""Right: compares block by block, as a cache does."""


def cached_prefix_length(stored, prompt, block):
    if block <= 0:
        raise ValueError(f"block {block}")
    start = 0
    while start + block < len(prompt) and start + block <= len(stored):
        if stored[start : start + block] != prompt[start : start + block]:
            break
        start += block
    return start
