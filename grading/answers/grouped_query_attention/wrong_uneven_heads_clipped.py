"""Wrong: heads that are left over read the last KV head."""
# mistake: uneven heads pass

import math

import torch


def grouped_query_attention(q, k, v):
    heads, n_q, d = q.shape[1:]
    kv_heads, n_k = k.shape[1], k.shape[2]
    if n_q > n_k:
        raise ValueError("more queries than keys")
    reads = [min(h // max(heads // kv_heads, 1), kv_heads - 1) for h in range(heads)]
    k, v = k[:, reads], v[:, reads]
    s = q @ k.transpose(2, 3) / math.sqrt(d)
    mask = torch.tril(torch.ones(n_q, n_k, dtype=torch.bool), n_k - n_q)
    s = s.masked_fill(~mask, -math.inf)
    return torch.softmax(s, dim=-1) @ v
