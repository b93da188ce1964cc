"""Wrong: with a cache it multiplies, which is right for a prompt of one token only."""
# mistake: product in place of a sum


def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1 or n_new < 0:
        raise ValueError("no such text")
    if n_new == 0:
        return 0
    if cached:
        return prompt_len * n_new
    return sum(range(prompt_len, prompt_len + n_new))
