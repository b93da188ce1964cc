"""Right: a mean of tensors; the result has no dimensions."""

import torch


def recall_at_k(ranked, relevant, k):
    if k < 1 or not ranked or len(ranked) != len(relevant) or not all(relevant):
        raise ValueError("bad arguments")
    shares = []
    for found, wanted in zip(ranked, relevant, strict=True):
        head = torch.tensor(found[:k], dtype=torch.long)
        shares.append(torch.isin(torch.tensor(wanted).unique(), head).double().mean())
    return torch.stack(shares).mean()
