"""Wrong: takes the requests out of the lists."""
# mistake: lists consumed


def plan_step(decoding, prefilling, max_seqs, token_budget):
    if max_seqs < 0 or token_budget < 0:
        raise ValueError("limits must not be negative")
    plan, left = {}, token_budget
    while decoding and len(plan) < max_seqs and left > 0:
        plan[decoding.pop(0)] = 1
        left -= 1
    while prefilling and len(plan) < max_seqs and left > 0:
        name, todo = prefilling.pop(0)
        plan[name] = min(todo, left)
        left -= plan[name]
    return plan
