"""Wrong: divides by d."""
# mistake: scaled by d

import math

import torch


def online_softmax_attention(q, k, v, block_size):
    if block_size < 1:
        raise ValueError("tiles of one position or more")
    if q.shape != k.shape or q.shape != v.shape:
        raise ValueError("q, k and v have one shape")
    H, n, d = q.shape
    out = torch.zeros_like(q)
    for i in range(0, n, block_size):
        queries = q[:, i : i + block_size] / d
        m = torch.full((H, queries.shape[1], 1), -math.inf)
        s = torch.zeros(H, queries.shape[1], 1)
        a = torch.zeros_like(queries)
        for j in range(0, i + 1, block_size):
            scores = queries @ k[:, j : j + block_size].transpose(1, 2)
            if j == i:
                later = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
                scores = scores.masked_fill(later, -math.inf)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            p = torch.exp(scores - new)
            shrink = torch.exp(m - new)
            s = s * shrink + p.sum(dim=-1, keepdim=True)
            a = a * shrink + p @ v[:, j : j + block_size]
            m = new
        out[:, i : i + block_size] = a / s
    return out
