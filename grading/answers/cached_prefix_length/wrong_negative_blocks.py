"""Wrong: refuses 0 only."""
# mistake: bad blocks pass


def cached_prefix_length(stored, prompt, block):
    if not block:
        raise ValueError("block")
    n = 0
    while n < len(stored) and n < len(prompt) and stored[n] == prompt[n]:
        n += 1
    return max(0, min(n, len(prompt) - 1)) // block * block
