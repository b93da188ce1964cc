"""Wrong: bad arguments pass."""
# mistake: no errors


def positions_processed(prompt_len, n_new, cached):
    if n_new <= 0:
        return 0
    return prompt_len + n_new - 1 if cached else sum(prompt_len + i for i in range(n_new))
