"""Held-out cases of mean_pool. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cases.pool_draws import Pool, by_row, groups, names, raw
from kvgrade.cases import Exercise, Mistake

NAME = "mean_pool"


def _mean(vectors: np.ndarray, tokens: np.ndarray) -> Any:
    """Token by token."""
    total, count = np.zeros(vectors.shape[1]), 0
    for vector, is_token in zip(vectors, tokens, strict=True):
        if is_token:
            total, count = total + vector, count + 1
    return total / count


MEAN = by_row(_mean)


def _pool(pool: Pool = MEAN, **kwargs: Any) -> dict[str, Any]:
    return names(NAME, pool, **kwargs)


def _sums(hidden: np.ndarray, real: np.ndarray) -> np.ndarray:
    return (hidden * real[..., None]).sum(1)


def _product(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask.to(hidden.dtype)[..., None]
    return (hidden * weights).sum(1) / weights.sum(1)


def _indexed(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A mask as an index: numbers then pick rows 0 and 1."""
    return torch.stack([hidden[b][mask[b]].mean(0) for b in range(len(hidden))])


def _filled(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Needs a mask that can be turned round."""
    return hidden.masked_fill(~mask[..., None], 0.0).sum(1) / mask.sum(1, keepdim=True)


def _some_empty(hidden: np.ndarray, real: np.ndarray, filling: float) -> np.ndarray:
    """Refuses a batch of empty rows only."""
    if not real.any():
        raise ValueError
    return np.stack(
        [_mean(v, t) if t.any() else np.full(v.shape[1], filling) for v, t in zip(hidden, real, strict=True)]
    )


EXERCISE = Exercise(
    NAME,
    _pool(),
    groups=groups(NAME, "the mean of the vectors of the real tokens"),
    mistakes=[
        Mistake("mask ignored", "padding is no part of the text: leave it out", _pool(lambda h, m: h.mean(1))),
        Mistake(
            "divided by n",
            "divide by the number of tokens, not by the number of places",
            _pool(lambda h, m: _sums(h, m) / h.shape[1]),
        ),
        Mistake("not divided", "a mean is the sum divided by the number of tokens", _pool(_sums)),
        Mistake(
            "one number of tokens",
            "each text is divided by its own number of tokens",
            [
                _pool(lambda h, m: _sums(h, m) / m.sum(1).mean()),
                _pool(lambda h, m: _sums(h, m) / m.sum(1).max()),
                _pool(lambda h, m: _sums(h, m) / m[0].sum()),
            ],
        ),
        Mistake(
            "tokens of the whole batch",
            "each text is divided by its own number of tokens",
            _pool(lambda h, m: _sums(h, m) / m.sum()),
        ),
        Mistake(
            "first mask for all",
            "each row has a mask of its own",
            _pool(lambda h, m: MEAN(h, np.broadcast_to(m[0], m.shape))),
        ),
        Mistake(
            "tokens first",
            "the padding may stand on the left: the mask says which places are tokens, not only how many",
            _pool(by_row(lambda v, t: v[: t.sum()].mean(0))),
        ),
        Mistake(
            "tokens last",
            "the padding may stand on the right: the mask says which places are tokens, not only how many",
            _pool(by_row(lambda v, t: v[len(v) - t.sum() :].mean(0))),
        ),
        Mistake(
            "padding pooled",
            "True or 1 is a token, False or 0 is padding",
            _pool(by_row(lambda v, t: v[~t].mean(0) if not t.all() else np.full(v.shape[1], np.nan))),
        ),
        Mistake("largest", "the mean, not the largest value", _pool(by_row(lambda v, t: v[t].max(0)))),
        Mistake(
            "bool masks only",
            "a mask of the numbers 0 and 1 is a mask too: make one kind of it first",
            [raw(NAME, _indexed), raw(NAME, _filled)],
        ),
        Mistake("hidden changed", "hidden was changed in place", _pool(spoils=True)),
        Mistake(
            "empty rows pass",
            "a text without any token has no mean: raise ValueError",
            [
                raw(NAME, _product, checks_rows=False),
                raw(NAME, _indexed, checks_rows=False),
                _pool(empty=lambda h, m: _sums(h, m) / np.maximum(m.sum(1), 1)[:, None]),
                _pool(empty=lambda h, m: _sums(h, m) / (m.sum(1) + 1e-9)[:, None]),
                _pool(
                    empty=lambda h, m: np.stack(
                        [_mean(v, t) if t.any() else v.mean(0) for v, t in zip(h, m, strict=True)]
                    )
                ),
            ],
        ),
        Mistake(
            "all rows have to be empty",
            "one row without any token is enough for a ValueError",
            [
                _pool(empty=lambda h, m: _some_empty(h, m, 0.0)),
                _pool(empty=lambda h, m: _some_empty(h, m, np.nan)),
            ],
        ),
        Mistake(
            "shapes unchecked",
            "a mask that is not (B, n) has to raise ValueError: broadcasting hides it, or torch raises another error",
            [raw(NAME, pool, checks_shape=False) for pool in (_product, _indexed, _filled)],
        ),
    ],
)
