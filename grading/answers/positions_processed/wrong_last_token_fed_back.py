"""Wrong: counts a decode step for the last token too."""
# mistake: last token fed back


def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1 or n_new < 0:
        raise ValueError("prompt_len must be at least 1 and n_new not negative")
    if n_new == 0:
        return 0
    return prompt_len + n_new if cached else sum(prompt_len + i for i in range(n_new))
