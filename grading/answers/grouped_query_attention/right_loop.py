"""Right: a loop over sequences, heads and queries, without a mask."""

import torch


def grouped_query_attention(q, k, v):
    B, H, n_q, d = q.shape
    M, n_k = k.shape[1], k.shape[2]
    if H % M > 0:
        raise ValueError(f"{H} heads on {M}")
    if n_q > n_k:
        raise ValueError(f"{n_q} queries on {n_k} keys")
    out = torch.empty_like(q)
    for b in range(B):
        for h in range(H):
            g = h // (H // M)
            for i in range(n_q):
                end = n_k - n_q + i + 1
                weights = torch.softmax(k[b, g, :end] @ q[b, h, i] * d**-0.5, 0)
                out[b, h, i] = weights @ v[b, g, :end]
    return out
