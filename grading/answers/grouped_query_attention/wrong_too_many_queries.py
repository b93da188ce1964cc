"""Wrong: does not compare n_q with n_k."""
# mistake: too many queries pass

import math

import torch


def grouped_query_attention(q, k, v):
    heads, n_q, d = q.shape[1:]
    kv_heads, n_k = k.shape[1], k.shape[2]
    if heads % kv_heads:
        raise ValueError("heads do not fit")
    k = k.repeat_interleave(heads // kv_heads, dim=1)
    v = v.repeat_interleave(heads // kv_heads, dim=1)
    s = q @ k.transpose(2, 3) / math.sqrt(d)
    mask = torch.tril(torch.ones(n_q, n_k, dtype=torch.bool), n_k - n_q)
    s = s.masked_fill(~mask, -math.inf)
    return torch.softmax(s, dim=-1) @ v
