"""Wrong: counts every place where both agree."""
# mistake: agreement anywhere


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    n = sum(a == b for a, b in zip(stored, prompt, strict=False))
    return max(0, min(n, len(prompt) - 1) // block * block)
