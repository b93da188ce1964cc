"""Weights in 8 or 4 bits: small whole numbers, and a scale that turns them back into weights.

Symmetric absmax rounding: the largest weight of a row (or of a group of neighbours in a row) becomes the largest code,
and 0 stays 0. Everything here takes and returns numpy arrays; a torch tensor on the CPU is read as one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kvlab.validate import whole

GROUPS = (32, 64)  # weights that share one scale in int4
LOWEST, HIGHEST = -8, 7  # what four bits hold


class Groups(NamedTuple):
    """int4 weights: two codes to a byte, uint8 (rows, columns / 2), and a float32 scale for each group of a row."""

    packed: np.ndarray
    scales: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales together."""
        return self.packed.nbytes + self.scales.nbytes

    @property
    def group(self) -> int:
        """Weights that share a scale."""
        return 2 * self.packed.shape[1] // self.scales.shape[1]


def quantize_rows(w: Any, bits: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Codes int8 (rows, columns) and scales float32 (rows,), so that codes x scale is close to `w`.

    bits: 2 to 8. Codes lie within ±(2^(bits-1) - 1): one code is given up, so that both signs reach equally far.
    The error is at most half a scale. A row of zeros has codes 0 and scale 1. Bad shapes, NaN and inf raise ValueError.
    """
    limit = 2 ** (_bits(bits) - 1) - 1
    codes, scales = _round(_matrix(w), limit)
    return codes, scales[:, 0]


def dequantize_rows(q: Any, scales: Any) -> np.ndarray:
    """Weights float32 (rows, columns) from the codes and scales of `quantize_rows`."""
    codes, factors = np.asarray(q), np.asarray(scales, dtype=np.float32)
    if codes.ndim != 2 or factors.shape != codes.shape[:1]:
        raise ValueError(f"codes (rows, columns) need one scale per row, got {codes.shape} and {factors.shape}")
    return codes.astype(np.float32) * factors[:, None]


def pack_int4(codes: Any) -> np.ndarray:
    """Codes from -8 to 7, 1-D, as uint8: two to a byte, the first in the low four bits; an odd end is padded with 0."""
    values = np.asarray(codes)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(f"codes must be a flat array of integers, got shape {values.shape} of {values.dtype}")
    if values.size and not LOWEST <= int(values.min()) <= int(values.max()) <= HIGHEST:
        raise ValueError(f"a code of 4 bits lies between -8 and 7, got {values.min()} to {values.max()}")
    nibbles = values.astype(np.int8).view(np.uint8) & 15  # the low four bits of two's complement
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    return nibbles[0::2] | nibbles[1::2] << 4


def unpack_int4(packed: Any, n: int) -> np.ndarray:
    """The first `n` codes, int8, that `pack_int4` put into these bytes."""
    values = np.asarray(packed)
    if values.ndim != 1 or values.dtype != np.uint8:
        raise ValueError(f"packed codes are a flat uint8 array, got shape {values.shape} of {values.dtype}")
    n = whole("n", n)
    if n > 2 * values.size:
        raise ValueError(f"{values.size} bytes hold at most {2 * values.size} codes, not {n}")
    nibbles = np.stack([values & 15, values >> 4], axis=1).reshape(-1)[:n]
    return ((nibbles ^ 8).astype(np.int8) - 8).astype(np.int8)  # 8 to 15 stand for -8 to -1


def quantize_groups(w: Any, group: int = 64) -> Groups:
    """int4 weights with a scale for each `group` (32 or 64) neighbours of a row; the columns must divide into groups.

    With a scale of their own, a few large weights spoil the precision of their neighbours only, not of the whole row.
    """
    weights = _matrix(w)
    if group not in GROUPS or not isinstance(group, int):
        raise ValueError(f"group must be one of {', '.join(map(str, GROUPS))}, got {group!r:.60}")
    rows, columns = weights.shape
    if columns % group:
        raise ValueError(f"{columns} columns cannot be divided into groups of {group}")
    codes, scales = _round(weights.reshape(-1, group), HIGHEST)
    return Groups(pack_int4(codes.reshape(-1)).reshape(rows, columns // 2), scales.reshape(rows, columns // group))


def dequantize_groups(groups: Groups) -> np.ndarray:
    """Weights float32 (rows, columns) from the result of `quantize_groups`."""
    rows, half = groups.packed.shape
    codes = unpack_int4(groups.packed.reshape(-1), 2 * rows * half).reshape(-1, groups.group)
    return (codes * groups.scales.reshape(-1, 1)).reshape(rows, 2 * half)


def quantized_bytes(rows: int, columns: int, bits: int, group: int | None = None) -> int:
    """Bytes that a matrix takes with its float32 scales: one scale per row, or per `group` weights of a row.

    Codes of 5 to 8 bits take a byte each, codes of up to 4 bits half a byte.
    """
    rows, columns = whole("rows", rows, least=1), whole("columns", columns, least=1)
    per_row = 1 if group is None else -(-columns // whole("group", group, least=1))
    codes = rows * columns if _bits(bits) > 4 else -(-rows * columns // 2)
    return codes + 4 * rows * per_row


def _round(weights: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes int8 like `weights`, and scales (rows, 1)."""
    largest = np.abs(weights).max(axis=1, keepdims=True)
    scales = np.where(largest > 0, largest / limit, 1).astype(np.float32)
    # A scale may round to 0 (weights near the smallest float) or a quotient just beyond the limit.
    scales[scales == 0] = 1
    codes = np.rint(weights / scales).clip(-limit, limit)
    return codes.astype(np.int8), scales


def _matrix(w: Any) -> np.ndarray:
    """`w` as a float array (rows, columns), not empty and finite."""
    if hasattr(w, "detach"):  # a torch tensor; numpy has no bfloat16
        w = w.detach().cpu()
        w = (w if str(w.dtype) == "torch.float64" else w.float()).numpy()
    weights = np.asarray(w)
    if weights.dtype.kind in "iu":
        weights = weights.astype(np.float64)
    if weights.dtype == np.float16:  # a scale of its own precision would be off by whole codes
        weights = weights.astype(np.float32)
    if weights.ndim != 2 or weights.dtype.kind != "f" or weights.size == 0:
        raise ValueError(f"weights must be numbers of shape (rows, columns), got {weights.shape} of {weights.dtype}")
    if not np.isfinite(weights).all():
        raise ValueError("the weights hold NaN or inf, which no code stands for")
    if np.abs(weights).max() > np.finfo(np.float32).max:
        raise ValueError("the weights hold numbers that float32, the type of the scales, cannot hold")
    return weights


def _bits(bits: int) -> int:
    number = whole("bits", bits, least=2)
    if number > 8:
        raise ValueError(f"bits must be from 2 to 8, got {number}")
    return number
