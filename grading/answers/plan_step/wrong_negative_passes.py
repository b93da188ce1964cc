"""Wrong: a negative limit is taken for 0."""
# mistake: negative limits pass


def plan_step(decoding, prefilling, max_seqs, token_budget):
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
