"""Wrong: bad arguments are refused with a cache only."""
# mistake: checked in the cached branch only


def positions_processed(prompt_len, n_new, cached):
    if not cached:
        return sum(range(prompt_len, prompt_len + n_new))
    if prompt_len < 1 or n_new < 0:
        raise ValueError("no such text")
    return prompt_len + n_new - 1 if n_new else 0
