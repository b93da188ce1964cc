"""Wrong: bad arguments are refused without a cache only."""
# mistake: checked in the naive branch only


def positions_processed(prompt_len, n_new, cached):
    if cached:
        return prompt_len + n_new - 1 if n_new else 0
    if prompt_len < 1 or n_new < 0:
        raise ValueError("no such text")
    return sum(range(prompt_len, prompt_len + n_new))
