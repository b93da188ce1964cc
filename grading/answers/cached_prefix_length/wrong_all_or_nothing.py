"""Wrong: reuses the stored text only as a whole."""
# mistake: all or nothing


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    n = max(0, min(len(stored), len(prompt) - 1))
    return n // block * block if stored[:n] == prompt[:n] else 0
