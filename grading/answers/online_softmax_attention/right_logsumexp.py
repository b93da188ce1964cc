"""Right: each tile its own softmax, put together by logarithms of sums."""

import math

import torch


def online_softmax_attention(q, k, v, block_size):
    if block_size < 1:
        raise ValueError(f"block_size {block_size}")
    if {tuple(x.shape) for x in (k, v)} != {tuple(q.shape)}:
        raise ValueError("different shapes")
    parts = []
    for rows in torch.arange(q.shape[1]).split(block_size):
        logs, mixed = torch.tensor(-math.inf), torch.zeros(1)
        for columns in torch.arange(int(rows[-1]) + 1).split(block_size):
            s = torch.einsum("hid,hjd->hij", q[:, rows], k[:, columns]) / q.shape[2] ** 0.5
            s = torch.where(columns <= rows[:, None], s, -math.inf)
            log = torch.logsumexp(s, -1, keepdim=True)
            own = torch.softmax(s, -1).nan_to_num() @ v[:, columns]
            both = torch.logaddexp(logs, log)
            mixed = mixed * (logs - both).exp() + own * (log - both).exp()
            logs = both
        parts.append(mixed)
    return torch.cat(parts, dim=1)
