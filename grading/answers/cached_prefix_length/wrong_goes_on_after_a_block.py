"""Wrong: skips a block that differs and counts the ones behind it."""
# mistake: agreement anywhere


def cached_prefix_length(stored, prompt, block):
    if block < 1:
        raise ValueError("block")
    found = 0
    for start in range(0, min(len(stored), len(prompt) - 1) - block + 1, block):
        if stored[start : start + block] == prompt[start : start + block]:
            found += block
    return found
