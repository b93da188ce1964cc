"""Wrong: max_seqs is applied to each kind apart."""
# mistake: decoding requests not counted


def plan_step(decoding, prefilling, max_seqs, token_budget):
    if max_seqs < 0 or token_budget < 0:
        raise ValueError("limits must not be negative")
    plan = dict.fromkeys(decoding[: min(max_seqs, token_budget)], 1)
    left = token_budget - len(plan)
    for name, todo in prefilling[:max_seqs]:
        if left > 0:
            plan[name] = min(todo, left)
            left -= plan[name]
    return plan
