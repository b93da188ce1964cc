"""Logits for the held-out cases of unit 05, drawn so that no tie and no edge decides by rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

Logits = Sequence[float] | np.ndarray


def distinct(rng: Generator, n: int) -> np.ndarray:
    """n logits in random places, no two closer than 0.1, around 0."""
    values = np.cumsum(rng.uniform(0.1, 0.6, n))
    return rng.permutation(values - values.mean())


def tensor(values: Logits, dtype: Any = np.float32) -> torch.Tensor:
    return torch.from_numpy(np.array(values, dtype=dtype))


def softmax(values: Logits) -> np.ndarray:
    """In float64, one exponential at a time."""
    top = max(float(value) for value in values)
    powers = np.array([math.exp(float(value) - top) for value in values])
    return powers / powers.sum()


def keeping(
    logits: torch.Tensor, keeps: Callable[[np.ndarray], Sequence[bool]], removed: float = -math.inf
) -> np.ndarray:
    """The logits, with `removed` where `keeps` says no."""
    values = logits.double().numpy()
    return np.where(np.array(keeps(values), dtype=bool), values, removed)


def bad(raises: type[Exception] | None, goes_on: Callable[[], Any]) -> Any:
    """What a bad argument leads to: an error, or, where that is None, what the code gives all the same."""
    if raises:
        raise raises
    return goes_on()
