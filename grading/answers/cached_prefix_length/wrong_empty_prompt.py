"""Wrong: an empty prompt gives minus one block."""
# mistake: empty prompt


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    n = 0
    while n < len(stored) and n < len(prompt) and stored[n] == prompt[n]:
        n += 1
    return min(n, len(prompt) - 1) // block * block
