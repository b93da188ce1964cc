"""Drawn inputs of the two search exercises: vectors with chosen cosines, rankings with hits at chosen places."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

Ids = list[int]
WIDTH = 6


def direction(rng: Generator) -> np.ndarray:
    vector = rng.normal(size=WIDTH)
    return vector / np.linalg.norm(vector)


def doc_at(rng: Generator, query: np.ndarray, cosine: float) -> np.ndarray:
    """A unit vector with this cosine to the unit vector query."""
    side = direction(rng)
    side -= (side @ query) * query
    return cosine * query + math.sqrt(1 - cosine**2) * side / np.linalg.norm(side)


def cosines(rng: Generator, n: int, low: float = 0.1) -> list[float]:
    """n cosines from low to 0.95, apart from each other, in any order."""
    step = (0.95 - low) / n
    return [float(low + step * (i + rng.uniform(0.1, 0.6))) for i in rng.permutation(n)]


class Rankings:
    """Rankings with the relevant ids at chosen places: ids are never drawn twice."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng
        self.ids = [int(x) for x in rng.permutation(900) + 50]

    def fresh(self, n: int) -> Ids:
        return [self.ids.pop() for _ in range(n)]

    def query(self, k: int, places: Sequence[int], missing: int = 0, length: int | None = None) -> tuple[Ids, Ids]:
        """(found, relevant): relevant ids at these places, counted from 0, and so many that are not found at all."""
        found = self.fresh(k + 6 if length is None else length)
        relevant = [found[place] for place in places] + self.fresh(missing)
        return found, [relevant[i] for i in self.rng.permutation(len(relevant))]

    def places(self, k: int, n: int) -> list[int]:
        """n places among the first k - 1: neither k - 1 nor k + 1 results would hold others."""
        return [int(x) for x in self.rng.permutation(k - 1)[:n]]
