"""Wrong: all scores at once."""
# mistake: whole matrix

import math

import torch


def online_softmax_attention(q, k, v, block_size):
    if block_size < 1 or not q.shape == k.shape == v.shape:
        raise ValueError("sizes")
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[2])
    later = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(-1) @ v
