"""Right: counts call by call."""


def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1 or n_new < 0:
        raise ValueError("prompt_len must be at least 1 and n_new not negative")
    total = 0
    for step in range(n_new):
        total += prompt_len + step if not cached or step == 0 else 1
    return total
