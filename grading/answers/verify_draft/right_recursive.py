"""Right: accepts the first token and goes on with the rest."""

import torch


def verify_draft(draft_tokens, draft_probs, target_probs, uniforms):
    sizes = {len(draft_tokens), len(uniforms), len(draft_probs), len(target_probs) - 1}
    if len(sizes) > 1 or draft_probs.shape[1] != target_probs.shape[1]:
        raise ValueError("sizes do not fit")
    if not all(int(token) in range(draft_probs.shape[1]) for token in draft_tokens):
        raise ValueError("ids do not fit")
    if len(draft_tokens) == 0:
        return 0, target_probs[0]
    p, q, token = target_probs[0], draft_probs[0], int(draft_tokens[0])
    if p[token] / q[token] > uniforms[0]:
        later, probs = verify_draft(draft_tokens[1:], draft_probs[1:], target_probs[1:], uniforms[1:])
        return later + 1, probs
    rest = torch.relu(p - q)
    return 0, rest / torch.sum(rest)
