"""Held-out cases of last_token_pool. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cases.pool_draws import Pool, by_row, groups, names, raw
from kvgrade.cases import Exercise, Mistake

NAME = "last_token_pool"
Place = Callable[[np.ndarray], int]


def _last(tokens: np.ndarray) -> int:
    """Place by place, from the end."""
    place = len(tokens) - 1
    while not tokens[place]:
        place -= 1
    return place


def _at(place: Place) -> Pool:
    """The vector at a place that is found in each row's mask."""
    return by_row(lambda vectors, tokens: vectors[place(tokens)])


def _pool(place: Place = _last, **kwargs: Any) -> dict[str, Any]:
    return names(NAME, _at(place), **kwargs)


def _one_side(hidden: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Looks at the last column and takes one side for the whole batch."""
    if real[:, -1].all():
        return hidden[:, -1]
    return _at(lambda tokens: int(tokens.sum()) - 1)(hidden, real)


def _place(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    last = ((mask != 0) * torch.arange(mask.shape[1])).argmax(1)
    return hidden[torch.arange(len(hidden)), last]


def _first_zero(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Before the first 0, or at the end of the row."""
    return hidden[torch.arange(len(hidden)), mask.long().argmin(1) - 1]


def _indexed(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A mask as an index: numbers then pick rows 0 and 1."""
    return torch.stack([hidden[b][mask[b]][-1] for b in range(len(hidden))])


def _where(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Row by row, any kind of mask."""
    return torch.stack([hidden[b, mask[b].nonzero()[-1, 0]] for b in range(len(hidden))])


def _some_empty(hidden: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Refuses a batch of empty rows only."""
    if not real.any():
        raise ValueError
    return np.stack([v[_last(t)] if t.any() else v[0] for v, t in zip(hidden, real, strict=True)])


EXERCISE = Exercise(
    NAME,
    _pool(),
    groups=groups(NAME, "the vector of the last real token"),
    mistakes=[
        Mistake(
            "end of the row",
            "with padding on the right the end of the row is no token",
            names(NAME, lambda h, m: h[:, -1]),
        ),
        Mistake(
            "number of tokens as a place",
            "with padding on the left the number of tokens does not tell where they end",
            _pool(lambda t: int(t.sum()) - 1),
        ),
        Mistake(
            "one side for the batch",
            "each row may be padded on its own side: look at each mask by itself",
            names(NAME, _one_side),
        ),
        Mistake(
            "one place too far",
            "places count from 0: the last of 3 tokens is at place 2",
            [
                _pool(lambda t: min(int(t.sum()), len(t) - 1)),
                _pool(lambda t: min(_last(t) + 1, len(t) - 1)),
            ],
        ),
        Mistake(
            "one place too early",
            "the last token itself, not the one before it",
            [_pool(lambda t: _last(t) - 1), _pool(lambda t: max(_last(t) - 1, 0))],
        ),
        Mistake("first token", "the last token, not the first one", _pool(lambda t: int(t.argmax()))),
        Mistake(
            "first place", "the last token: in a causal model the first one has seen nothing else", _pool(lambda t: 0)
        ),
        Mistake("mean", "the vector of one token, not the mean of all", names(NAME, by_row(lambda v, t: v[t].mean(0)))),
        Mistake(
            "first row's place for all",
            "each row has a last token of its own",
            [
                names(NAME, lambda h, m: h[:, _last(m[0])]),
                names(NAME, lambda h, m: h[:, max(_last(row) for row in m)]),
                names(NAME, lambda h, m: h[:, min(_last(row) for row in m)]),
            ],
        ),
        Mistake(
            "bool masks only",
            "a mask of the numbers 0 and 1 is a mask too: make one kind of it first",
            raw(NAME, _indexed),
        ),
        Mistake("hidden changed", "hidden was changed in place", _pool(spoils=True)),
        Mistake(
            "empty rows pass",
            "a text without any token has no last one: raise ValueError",
            [raw(NAME, pool, checks_rows=False) for pool in (_place, _first_zero, _where, _indexed)],
        ),
        Mistake(
            "all rows have to be empty",
            "one row without any token is enough for a ValueError",
            _pool(empty=_some_empty),
        ),
        Mistake(
            "shapes unchecked",
            "a mask that is not (B, n) has to raise ValueError: another error, or none, comes without a check",
            [raw(NAME, pool, checks_shape=False) for pool in (_place, _first_zero, _where, _indexed)],
        ),
    ],
)
