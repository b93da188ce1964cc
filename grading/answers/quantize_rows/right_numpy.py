"""Right: numpy, halves away from zero, and a scale of 0 for rows of zeros."""

import numpy as np


def quantize_rows(w, bits=8):
    w = np.asarray(w, dtype=np.float64)
    if bits not in range(2, 9) or w.ndim != 2:
        raise ValueError("bits from 2 to 8, w of two axes")
    top = 2 ** (int(bits) - 1) - 1
    scales = np.max(np.abs(w), axis=1) / top
    exact = np.divide(w, scales[:, None], out=np.zeros_like(w), where=scales[:, None] > 0)
    return (np.sign(exact) * np.floor(np.abs(exact) + 0.5)).astype(np.int8), scales


def dequantize_rows(q, scales):
    q, scales = np.asarray(q, dtype=np.float64), np.asarray(scales)
    if scales.ndim != 1 or len(scales) != len(q):
        raise ValueError("scales (rows,)")
    return np.einsum("rc,r->rc", q, scales)
