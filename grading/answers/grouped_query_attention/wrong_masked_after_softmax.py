"""Wrong: softmax first, then the mask."""
# mistake: masked after softmax

import math

import torch


def grouped_query_attention(q, k, v):
    heads, n_q, d = q.shape[1:]
    kv_heads, n_k = k.shape[1], k.shape[2]
    if heads % kv_heads:
        raise ValueError("heads do not fit")
    if n_q > n_k:
        raise ValueError("more queries than keys")
    k = k.repeat_interleave(heads // kv_heads, dim=1)
    v = v.repeat_interleave(heads // kv_heads, dim=1)
    s = q @ k.transpose(2, 3) / math.sqrt(d)
    mask = torch.tril(torch.ones(n_q, n_k, dtype=torch.bool), n_k - n_q)
    return (torch.softmax(s, dim=-1) * mask) @ v
