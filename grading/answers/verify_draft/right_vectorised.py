"""Right: all ratios at once in numpy; the first rejection by argmin."""

import numpy as np


def verify_draft(draft_tokens, draft_probs, target_probs, uniforms):
    tokens = np.asarray(draft_tokens, dtype=int)
    u = np.asarray(uniforms, dtype=float)
    q, p = np.asarray(draft_probs, dtype=float), np.asarray(target_probs, dtype=float)
    k = len(tokens)
    fits = q.shape[0] == k == len(u) and p.shape[0] == k + 1 and p.shape[1] == q.shape[1]
    if not fits or ((tokens < 0) | (tokens >= p.shape[1])).any():
        raise ValueError("sizes or ids do not fit")
    rows = np.arange(k)
    accepted = np.append(u < np.minimum(1, p[rows, tokens] / q[rows, tokens]), False)
    n = int(accepted.argmin())
    if n == k:
        return n, p[k]
    rest = np.maximum(0, p[n] - q[n])
    return n, rest / rest.sum()
