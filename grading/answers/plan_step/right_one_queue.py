"""Right: both kinds in one queue; islice counts the places."""

from itertools import chain, islice


def plan_step(decoding, prefilling, max_seqs, token_budget):
    if max_seqs < 0 or token_budget < 0:
        raise ValueError("limits must not be negative")
    queue = chain(((name, 1) for name in decoding), prefilling)
    plan = {}
    for name, wish in islice(queue, max_seqs):
        given = min(wish, token_budget - sum(plan.values()))
        if given > 0:
            plan[name] = given
    return plan
