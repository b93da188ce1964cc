"""Wrong: a prompt that is stored to the end leaves nothing to compute."""
# mistake: no token left


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    n = 0
    while n < len(stored) and n < len(prompt) and stored[n] == prompt[n]:
        n += 1
    return n // block * block
