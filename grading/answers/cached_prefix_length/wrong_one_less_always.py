"""Wrong: takes a token off although the prompt goes on."""
# mistake: a token always left


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    n = 0
    while n < len(stored) and n < len(prompt) and stored[n] == prompt[n]:
        n += 1
    return max(0, (n - 1) // block * block)
