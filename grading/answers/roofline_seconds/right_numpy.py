"""Right: numpy, a numpy scalar comes back."""

import numpy as np


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    work, rates = np.array([flops, bytes_moved], dtype=float), np.array([peak_flops, bandwidth], dtype=float)
    if not (rates > 0).all():
        raise ValueError(f"rates must be positive, got {rates}")
    return (work / rates).max()
