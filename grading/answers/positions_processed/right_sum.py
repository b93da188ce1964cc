"""Right: sums a list of calls, as a float."""


def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1 or n_new < 0:
        raise ValueError("prompt_len must be at least 1 and n_new not negative")
    calls = [prompt_len, *[1] * (n_new - 1)] if cached else list(range(prompt_len, prompt_len + n_new))
    return float(sum(calls[:n_new]))
