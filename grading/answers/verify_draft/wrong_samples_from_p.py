"""Wrong: after a rejection it samples from the target itself."""
# mistake: samples from p


def verify_draft(draft_tokens, draft_probs, target_probs, uniforms):
    k, width = draft_probs.shape
    if target_probs.shape != (k + 1, width):
        raise ValueError("the target needs one row more than the draft")
    if len(draft_tokens) != k or len(uniforms) != k:
        raise ValueError("one token and one number for each row of the draft")
    if any(int(token) < 0 or int(token) >= width for token in draft_tokens):
        raise ValueError("unknown token")
    for i in range(k):
        token = int(draft_tokens[i])
        p, q = target_probs[i], draft_probs[i]
        if float(uniforms[i]) >= min(1.0, float(p[token] / q[token])):
            return i, p
    return k, target_probs[k]
