"""Wrong: the first naive call is given a token that does not exist yet."""
# mistake: naive one token ahead


def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1 or n_new < 0:
        raise ValueError("prompt_len must be at least 1 and n_new not negative")
    if n_new == 0:
        return 0
    return prompt_len + n_new - 1 if cached else sum(prompt_len + i for i in range(1, n_new + 1))
