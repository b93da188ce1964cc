"""Right: float32 tensors, results are tensors without dimensions, and a further key."""

import torch


def latency_metrics(requested_at, token_times):
    times = torch.tensor([requested_at, *token_times], dtype=torch.float32)
    gaps = times.diff()
    if len(gaps) == 0 or gaps.min() < 0:
        raise ValueError("no tokens, or time runs backwards")
    tpot = gaps[1:].mean()
    return {"ttft": gaps[0], "tpot": tpot, "tps": 1 / tpot, "e2e": times[-1] - times[0], "n_tokens": len(gaps)}
