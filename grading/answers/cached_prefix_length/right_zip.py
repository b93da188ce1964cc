"""Right: walks along both lists, then cuts and rounds."""


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    n = 0
    for a, b in zip(stored, prompt, strict=False):
        if a != b:
            break
        n += 1
    n = min(n, len(prompt) - 1)
    return n - n % block if n > 0 else 0
