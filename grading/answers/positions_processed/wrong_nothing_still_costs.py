"""Wrong: counts the prompt even when nothing is produced."""
# mistake: nothing still costs


def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1 or n_new < 0:
        raise ValueError("prompt_len must be at least 1 and n_new not negative")
    return prompt_len + max(n_new, 1) - 1 if cached else sum(prompt_len + i for i in range(n_new))
