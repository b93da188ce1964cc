"""Right: numpy arithmetic; signs by exclusive or."""

import numpy as np


def pack_int4(codes):
    codes = np.asarray(codes).astype(int)
    if np.any(codes < -8) or np.any(codes > 7):
        raise ValueError("a code does not fit")
    out = np.zeros((len(codes) + 1) // 2, dtype=np.uint8)
    out += (codes[::2] % 16).astype(np.uint8)
    out[: len(codes) // 2] += (codes[1::2] % 16 * 16).astype(np.uint8)
    return out


def unpack_int4(packed, n):
    packed = np.asarray(packed)
    if not 0 <= n <= 2 * packed.size:
        raise ValueError("a number of codes that the bytes do not hold")
    flat = np.empty(2 * packed.size, dtype=np.int8)
    flat[0::2], flat[1::2] = packed & 0x0F, packed >> 4
    return ((flat ^ 8) - 8)[:n]
