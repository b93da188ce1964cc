"""Right: sorted upwards: what sums to no more than 1 - p from the bottom goes."""

import torch


def top_p_filter(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    rising, order = logits.double().sort()
    goes = rising.softmax(-1).cumsum(-1) <= 1 - p
    goes[-1] = False
    if p == 1:
        goes[:] = False
    remove = torch.zeros_like(goes).scatter(0, order, goes)
    return logits.masked_fill(remove, float("-inf"))
