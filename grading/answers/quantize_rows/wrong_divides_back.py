"""Wrong: divides by the scales on the way back."""
# mistake: divided

import torch


def quantize_rows(w, bits=8):
    if bits < 2 or bits > 8:
        raise ValueError("2 to 8 bits")
    if w.ndim != 2:
        raise ValueError("rows and columns")
    top = 2 ** (bits - 1) - 1
    scales = w.abs().max(dim=1).values / top
    scales = torch.where(scales > 0, scales, torch.ones_like(scales))
    codes = torch.round(w / scales[:, None]).to(torch.int8)
    return codes, scales


def dequantize_rows(q, scales):
    if scales.shape != (q.shape[0],):
        raise ValueError("one scale for each row")
    return q.float() / scales[:, None]
