"""Wrong: a limit of 0 is an error."""
# mistake: limits of 0 refused


def plan_step(decoding, prefilling, max_seqs, token_budget):
    if max_seqs <= 0 or token_budget <= 0:
        raise ValueError("limits must be positive")
    plan, left = {}, token_budget
    for name in decoding:
        if len(plan) < max_seqs and left > 0:
            plan[name] = 1
            left -= 1
    for name, todo in prefilling:
        if len(plan) < max_seqs and left > 0:
            plan[name] = min(todo, left)
            left -= plan[name]
    return plan
