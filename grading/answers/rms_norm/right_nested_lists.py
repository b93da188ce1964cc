"""Right: rows as lists, one inside the other."""

import math


def rms_norm(x, weight, eps=1e-5):
    if tuple(weight.shape) != (x.shape[-1],):
        raise ValueError("weights do not fit")
    return down(x.tolist(), weight.tolist(), eps)


def down(rows, weight, eps):
    if isinstance(rows[0], list):
        return [down(row, weight, eps) for row in rows]
    size = math.sqrt(sum(a * a for a in rows) / len(rows) + eps)
    return [a / size * w for a, w in zip(rows, weight, strict=True)]
