"""Wrong: a negative number of new tokens counts as none."""
# mistake: negative tokens pass


def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1:
        raise ValueError("no such text")
    if n_new <= 0:
        return 0
    if cached:
        return prompt_len + n_new - 1
    return sum(range(prompt_len, prompt_len + n_new))
