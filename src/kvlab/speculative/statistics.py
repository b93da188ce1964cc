"""Pearson's chi-square test: do counts follow given probabilities?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch


class ChiSquare(NamedTuple):
    """Pearson's statistic, its degrees of freedom, and the chance of one at least as large if the counts follow."""

    statistic: float
    degrees: int
    p_value: float


def chi_square(counts: Any, probs: Any, least: float = 5.0) -> ChiSquare:
    """Pearson's test: do `counts` follow `probs`? Cells that expect fewer than `least` are taken together.

    A count where the probability is 0 gives an infinite statistic and p = 0. Sizes that differ raise ValueError.
    """
    seen, chance = np.asarray(counts, dtype=np.float64), np.asarray(probs, dtype=np.float64)
    if seen.shape != chance.shape or seen.ndim != 1 or not seen.sum() > 0:
        raise ValueError(f"counts and probs must be flat and of one size, got {seen.shape} and {chance.shape}")
    if not (np.isfinite([seen, chance]).all() and (seen >= 0).all() and (chance >= 0).all() and chance.sum() > 0):
        raise ValueError("counts and probs must be finite and none below 0, and some probability above 0")
    expected = chance / chance.sum() * seen.sum()
    if (seen[expected == 0] > 0).any():
        return ChiSquare(float("inf"), int((expected > 0).sum()), 0.0)
    order = np.argsort(expected)
    order = order[expected[order] > 0]
    few = int(np.searchsorted(expected[order], least))
    if few > 0 and expected[order[:few]].sum() < least:
        few += 1  # the rare cells alone are still too few
    cells = [order[:few], *([i] for i in order[few:])] if few else [[i] for i in order]
    e = np.array([expected[c].sum() for c in cells])
    o = np.array([seen[c].sum() for c in cells])
    statistic, degrees = float(((o - e) ** 2 / e).sum()), max(1, len(cells) - 1)
    half = torch.tensor([degrees / 2, statistic / 2], dtype=torch.float64)
    return ChiSquare(statistic, degrees, float(torch.special.gammaincc(half[0], half[1])))
