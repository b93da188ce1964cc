"""Wrong: counts tokens of a block that agrees only in part."""
# mistake: not rounded


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    n = 0
    while n < len(stored) and n < len(prompt) and stored[n] == prompt[n]:
        n += 1
    return max(0, min(n, len(prompt) - 1))
