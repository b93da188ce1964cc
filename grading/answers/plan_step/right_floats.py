"""Right: walks through copies as queues; counts are floats with whole values."""

from collections import deque


def plan_step(decoding, prefilling, max_seqs, token_budget):
    if max_seqs < 0 or token_budget < 0:
        raise ValueError("limits must not be negative")
    writers, readers = deque(decoding), deque(prefilling)
    plan, places, tokens = {}, max_seqs, float(token_budget)
    while places and tokens and (writers or readers):
        name, wish = (writers.popleft(), 1) if writers else readers.popleft()
        plan[name] = min(float(wish), tokens)
        tokens -= plan[name]
        places -= 1
    return plan
