"""Wrong: every naive call counted at the final length."""
# mistake: final length each step


def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1 or n_new < 0:
        raise ValueError("prompt_len must be at least 1 and n_new not negative")
    if n_new == 0:
        return 0
    return prompt_len + n_new - 1 if cached else n_new * (prompt_len + n_new - 1)
