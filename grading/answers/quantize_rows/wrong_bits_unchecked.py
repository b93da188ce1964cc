"""Wrong: takes any number of bits."""
# mistake: bits unchecked

import torch


def quantize_rows(w, bits=8):
    if w.ndim != 2:
        raise ValueError("rows and columns")
    top = max(1, 2 ** max(bits - 1, 0) - 1)
    scales = w.abs().max(dim=1).values / top
    scales = torch.where(scales > 0, scales, torch.ones_like(scales))
    codes = torch.round(w / scales[:, None]).to(torch.int8)
    return codes, scales


def dequantize_rows(q, scales):
    if scales.shape != (q.shape[0],):
        raise ValueError("one scale for each row")
    return q.float() * scales[:, None]
