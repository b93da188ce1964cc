"""Batches of padded texts for the pooling exercises, and the parts that their oracles share.

A batch is described by the number of tokens of each text and the side of its padding, "left" or "right".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Group, call, unchanged

Pool = Callable[[np.ndarray, np.ndarray], Any]
Raw = Callable[[torch.Tensor, torch.Tensor], Any]
WIDTH = 4


def names(
    exercise: str, pool: Pool, empty: Callable[[np.ndarray, np.ndarray], Any] | None = None, spoils: bool = False
) -> dict[str, Any]:
    """An oracle: `pool` gets hidden (B, n, d) and which places are tokens (B, n).

    empty: what comes back for a row without a token, None for ValueError. spoils: padding is overwritten in place.
    """

    def answer(hidden: torch.Tensor, mask: torch.Tensor) -> Any:
        if mask.shape != hidden.shape[:2]:
            raise ValueError
        real = mask.numpy() != 0
        if not real.any(1).all():
            if empty is None:
                raise ValueError
            return empty(hidden.numpy(), real)
        out = pool(hidden.numpy().copy(), real)
        if spoils:
            hidden[mask == 0] = 0.0
        return out

    return {exercise: answer}


def raw(exercise: str, pool: Raw, checks_shape: bool = True, checks_rows: bool = True) -> dict[str, Any]:
    """A mistake that lies in what torch makes of the mask: `pool` gets the tensors as they are."""

    def answer(hidden: torch.Tensor, mask: torch.Tensor) -> Any:
        if checks_shape and mask.shape != hidden.shape[:2]:
            raise ValueError
        if checks_rows and not (mask != 0).any(1).all():
            raise ValueError
        return pool(hidden, mask)

    return {exercise: answer}


def by_row(pool: Callable[[np.ndarray, np.ndarray], Any]) -> Pool:
    """Row by row: `pool` gets the vectors (n, d) of one text and which of them are tokens (n,)."""
    return lambda hidden, real: np.stack([pool(vectors, tokens) for vectors, tokens in zip(hidden, real, strict=True)])


def _mask(n: int, lengths: Sequence[int], sides: Sequence[str]) -> torch.Tensor:
    rows = []
    for length, side in zip(lengths, sides, strict=True):
        row = [True] * length + [False] * (n - length)
        rows.append(row if side == "right" else row[::-1])
    return torch.tensor(rows)


def groups(exercise: str, rule: str) -> list[Group]:
    """The groups of a pooling exercise. rule: what the result is, for a learner whose mistake is not known."""

    def case(rng: Generator, n: int, lengths: Sequence[int], sides: Sequence[str], dtype: Any = torch.bool) -> Case:
        hidden = torch.from_numpy(rng.normal(size=(len(lengths), n, WIDTH)).astype(np.float32))
        return Case(call(exercise, hidden, _mask(n, lengths, sides).to(dtype)))

    def full(rng: Generator, n_texts: int, dtype: Any = torch.bool) -> Case:
        n = int(rng.integers(3, 9))
        return case(rng, n, [n] * n_texts, ["right"] * n_texts, dtype)

    def one_side(rng: Generator, side: str) -> list[Case]:
        """Texts of one length: 1 token, half of the places, all but one."""
        cases = []
        for n_texts, n, length in ((1, 6, 3), (2, 7, 1), (3, 5, 4)):
            cases.append(case(rng, n, [length] * n_texts, [side] * n_texts))
        return [Case(*cases[0].steps, unchanged(0)), *cases[1:]]

    def lengths(rng: Generator) -> list[Case]:
        """Another length in each row, padded on the right; one batch with a mask of numbers."""
        many = [[7, 2, 5], [1, 4, 7, 3]]
        return [
            case(rng, 7, row, ["right"] * len(row), kind)
            for row, kind in zip(many, (torch.bool, torch.long), strict=True)
        ]

    def sides(rng: Generator) -> list[Case]:
        return [case(rng, 6, row, ["left", "right", "left"]) for row in ([2, 3, 5], [4, 1, 2])]

    def numbers(rng: Generator) -> list[Case]:
        return [full(rng, n, dtype) for n, dtype in ((2, torch.long), (1, torch.float32), (3, torch.float32))]

    def empty(rng: Generator) -> list[Case]:
        rows = ([0], [3, 0, 6], [0, 6])
        return [Case(*case(rng, 6, row, ["right"] * len(row)).steps, *full(rng, 2).steps) for row in rows]

    def shapes(rng: Generator) -> list[Case]:
        bad = []
        for shape in ((3, 5), (1, 6), (3, 1)):
            hidden = torch.from_numpy(rng.normal(size=(3, 6, WIDTH)).astype(np.float32))
            bad.append(Case(call(exercise, hidden, torch.ones(shape, dtype=torch.bool)), *full(rng, 2).steps))
        return bad

    return [
        Group("no padding", 0.5, rule, lambda rng: [full(rng, n) for n in (1, 2, 4)]),
        Group("padding on the right", 0.5, f"{rule}; the inputs stay", lambda rng: one_side(rng, "right")),
        Group("padding on the left", 0.5, f"{rule}; the inputs stay", lambda rng: one_side(rng, "left")),
        Group("texts of different lengths", 0.25, f"{rule}, for each row by its own mask", lengths),
        Group("padding on both sides", 0.25, "each row may be padded on its own side", sides),
        Group("masks of numbers", 0.5, "the mask may be bool, or the numbers 0 and 1", numbers),
        Group("rows without a token", 0.25, "a row of the mask without any token raises ValueError", empty),
        Group("wrong shapes", 0.25, "a mask that is not (B, n) raises ValueError", shapes),
    ]
