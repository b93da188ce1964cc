"""Wrong: leaves the prompt out of the cached count."""
# mistake: prefill forgotten


def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1 or n_new < 0:
        raise ValueError("prompt_len must be at least 1 and n_new not negative")
    return n_new if cached else sum(prompt_len + i for i in range(n_new))
