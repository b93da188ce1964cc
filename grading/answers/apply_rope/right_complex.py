"""Right: complex numbers in numpy."""

import numpy as np


def apply_rope(x, positions, theta=10000.0):
    x, positions = np.asarray(x, dtype=np.float64), np.asarray(positions)
    half, odd = divmod(x.shape[-1], 2)
    if odd:
        raise ValueError("odd")
    if positions.shape != (x.shape[-2],):
        raise ValueError("positions")
    z = x[..., :half] + 1j * x[..., half:]
    z = z * np.exp(1j * np.outer(positions, theta ** (-np.arange(half) / half)))
    return np.concatenate([z.real, z.imag], axis=-1)
