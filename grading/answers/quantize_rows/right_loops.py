"""Right: one value after the other; lists where no dtype is asked for."""

import torch


def quantize_rows(w, bits=8):
    if not 2 <= bits <= 8 or w.dim() != 2:
        raise ValueError("not possible")
    top = (1 << (bits - 1)) - 1
    codes, scales = [], []
    for row in w.tolist():
        largest = max(abs(x) for x in row)
        scale = largest / top if largest else 1.0
        codes.append([max(-top, min(top, round(x / scale))) for x in row])
        scales.append(scale)
    return torch.tensor(codes, dtype=torch.int8), scales


def dequantize_rows(q, scales):
    factors = scales.tolist()
    if not isinstance(factors, list) or len(factors) != len(q):
        raise ValueError("not possible")
    return [[code * factor for code in row] for row, factor in zip(q.tolist(), factors, strict=True)]
