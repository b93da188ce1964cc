"""Wrong: takes the tokens out of the lists."""
# mistake: lists changed


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    usable, n = len(prompt) - 1, 0
    while stored and prompt and stored[0] == prompt[0]:
        stored.pop(0), prompt.pop(0)
        n += 1
    stored.clear(), prompt.clear()
    return max(0, min(n, usable) // block * block)
