"""Wrong: leaves out the last stored token, not the last one of the prompt."""
# mistake: last stored token left


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    n = 0
    while n < len(stored) and n < len(prompt) and stored[n] == prompt[n]:
        n += 1
    n = min(n, len(prompt) - 1, len(stored) - 1)
    return max(0, n // block * block)
