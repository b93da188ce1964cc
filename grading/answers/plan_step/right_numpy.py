"""Right: running sums in numpy; the counts are numpy integers."""

import numpy as np


def plan_step(decoding, prefilling, max_seqs, token_budget):
    if min(max_seqs, token_budget) < 0:
        raise ValueError("limits must not be negative")
    queue = [(name, 1) for name in decoding] + list(prefilling)
    queue = queue[:max_seqs]
    wishes = np.array([wish for _, wish in queue], dtype=np.int64)
    before = np.cumsum(wishes) - wishes
    given = np.clip(token_budget - before, 0, wishes)
    return {name: n for (name, _), n in zip(queue, given, strict=True) if n > 0}
