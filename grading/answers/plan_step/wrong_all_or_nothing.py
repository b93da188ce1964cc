"""Wrong: a prompt that does not fit whole waits, and all behind it."""
# mistake: all or nothing


def plan_step(decoding, prefilling, max_seqs, token_budget):
    if max_seqs < 0 or token_budget < 0:
        raise ValueError("limits must not be negative")
    plan, left = {}, token_budget
    for name, wish in [*((name, 1) for name in decoding), *prefilling]:
        if len(plan) == max_seqs or wish > left:
            break
        plan[name] = wish
        left -= wish
    return plan
