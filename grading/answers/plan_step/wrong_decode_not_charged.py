"""Wrong: the decoding requests' tokens are not taken from the budget."""
# mistake: decode tokens not charged


def plan_step(decoding, prefilling, max_seqs, token_budget):
    if max_seqs < 0 or token_budget < 0:
        raise ValueError("limits must not be negative")
    plan = dict.fromkeys(decoding[: min(max_seqs, token_budget)], 1)
    left = token_budget
    for name, todo in prefilling:
        if len(plan) < max_seqs and left > 0:
            plan[name] = min(todo, left)
            left -= plan[name]
    return plan
