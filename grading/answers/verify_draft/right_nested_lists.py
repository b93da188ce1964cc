"""Right: plain lists, and the row of a padded draft: with q = 0 the last row of p is what is left over."""


def verify_draft(draft_tokens, draft_probs, target_probs, uniforms):
    tokens, numbers = [int(t) for t in draft_tokens], [float(u) for u in uniforms]
    q, p = draft_probs.tolist(), target_probs.tolist()
    width = draft_probs.shape[1]
    if target_probs.shape[1] != width or len(p) != len(tokens) + 1 or not len(q) == len(tokens) == len(numbers):
        raise ValueError("draft, target and numbers do not fit together")
    for token in tokens:
        if not 0 <= token < width:
            raise ValueError(f"no token {token}")
    n = 0
    while n < len(tokens) and numbers[n] * q[n][tokens[n]] < p[n][tokens[n]]:
        n += 1
    q.append([0.0] * width)
    rest = [max(0.0, a - b) for a, b in zip(p[n], q[n], strict=True)]
    return n, [x / sum(rest) for x in rest]
