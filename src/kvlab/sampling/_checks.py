"""Input checks that the sampling functions share. Every failure is a sentence that names the argument."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch


def check_logits(logits: torch.Tensor, name: str = "logits") -> None:
    """Raise unless `logits` is a non-empty 1-D floating-point tensor of shape (vocab,)."""
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(logits).__name__}; use torch.tensor(...)")
    if logits.dim() != 1 or logits.numel() == 0:
        raise ValueError(f"{name} must have shape (vocab,) with vocab >= 1, got shape {tuple(logits.shape)}")
    if not logits.is_floating_point():
        raise ValueError(f"{name} must hold floats, got {logits.dtype}; use {name}.float()")


def whole_number(value: Any, name: str, minimum: int) -> int:
    """Return `value` as an int; floats count when they are whole (3.0), anything below `minimum` raises."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None
    if number != value:
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value!r}")
    return number


def real_number(value: Any, name: str) -> float:
    """Return `value` as a finite float; anything else raises."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, str) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return number


def token_ids(ids: Sequence[int] | torch.Tensor, vocab_size: int, device: torch.device, name: str) -> torch.Tensor:
    """Return `ids` (a list or an integer tensor, may be empty) as a 1-D LongTensor on `device`.

    An id below 0 or not below `vocab_size` raises ValueError: torch would count a negative one from the end,
    and would penalise the wrong token without a word.
    """
    if not isinstance(ids, torch.Tensor):
        ids = torch.tensor([whole_number(i, f"an id in {name}", 0) for i in ids], dtype=torch.long)
    if ids.dim() != 1 or (ids.numel() and ids.is_floating_point()):
        raise ValueError(f"{name} must be a flat list or 1-D tensor of token ids, got shape {tuple(ids.shape)}")
    ids = ids.to(device=device, dtype=torch.long)
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        raise ValueError(
            f"{name} holds an id outside the vocabulary: ids run from 0 to {vocab_size - 1}, "
            f"got {int(ids.min())} to {int(ids.max())}"
        )
    return ids
