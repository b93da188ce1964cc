"""Wrong: who gets nothing has an entry of 0."""
# mistake: entries of 0


def plan_step(decoding, prefilling, max_seqs, token_budget):
    if max_seqs < 0 or token_budget < 0:
        raise ValueError("limits must not be negative")
    plan, left = {}, token_budget
    for name, wish in [*((name, 1) for name in decoding), *prefilling][:max_seqs]:
        plan[name] = min(wish, left)
        left -= plan[name]
    return plan
