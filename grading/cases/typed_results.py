"""Comparison for exercises whose results have a dtype that is asked for, or in which several values are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kvgrade.cases import Case, Outcome, Step

Same = Callable[[Step, Any, Any], bool]


def by_step(same: Same) -> Callable[[Case, list[Outcome], list[Outcome]], bool]:
    """A `compare` for an Exercise: an error by its class, as usual; a value by `same(step, value, expected value)`."""

    def agree(case: Case, have: Sequence[Outcome], want: Sequence[Outcome]) -> bool:
        return all(_outcomes_agree(same, *three) for three in zip(case.steps, have, want, strict=True))

    return agree


def _outcomes_agree(same: Same, step: Step, have: Outcome, want: Outcome) -> bool:
    if "raised" in want:
        error = have.get("raised")
        bases = error.get("mro") if isinstance(error, dict) else None
        return isinstance(bases, list) and want["raised"]["type"] in bases
    return "value" in have and same(step, have["value"], want["value"])


def same_kind(mine: Any, its: np.ndarray) -> bool:
    """Whether a result is an array (or was a tensor) of the dtype and the shape of another."""
    return isinstance(mine, np.ndarray) and mine.dtype == its.dtype and mine.shape == its.shape
