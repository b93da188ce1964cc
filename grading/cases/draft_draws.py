"""Drafts for the cases of verify_draft: rows of p and q, tokens, and numbers that accept or reject them.

Probabilities are whole 64ths, and a number is well away from p / q or equals it exactly: rounding decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Step, call

WIDTH = 6


class Place(NamedTuple):
    """One token of a draft: its id, its row of q and of p, and its number."""

    token: int
    q: np.ndarray
    p: np.ndarray
    u: float


def row(rng: Generator) -> np.ndarray:
    """Probabilities above 0 in 64ths, uneven."""
    return (1 + rng.multinomial(64 - WIDTH, rng.dirichlet(np.ones(WIDTH)))) / 64


def place(rng: Generator, kind: str) -> Place:
    """kind: liked (p above q), chance (p below q, and accepted), rejected."""
    while True:
        q, p = row(rng), row(rng)
        ratio = p / q
        wanted = (ratio > 1.3) & (p < 0.45) if kind == "liked" else (ratio > 0.3) & (ratio < 0.7) & (p < 0.25)
        if not wanted.any():
            continue
        token = int(rng.choice(np.flatnonzero(wanted)))
        low, high = {
            "liked": (0.55, 0.95),
            "chance": (p[token] + 0.02, ratio[token] - 0.02),
            "rejected": (ratio[token] + 0.05, 0.97),
        }[kind]
        if low < high:
            return Place(token, q, p, round(float(rng.uniform(low, high)), 3))


def step(places: Sequence[Place], last: np.ndarray, tensors: bool = False) -> Step:
    """The call for these tokens, with `last` as the row of p after them; tokens and numbers as lists or as tensors."""
    tokens, us = [one.token for one in places], [one.u for one in places]
    q = np.array([one.q for one in places]).reshape(-1, len(last))
    p = np.array([*(one.p for one in places), last])
    rows = (torch.from_numpy(x.astype(np.float32)) for x in (q, p))
    if tensors:
        return call("verify_draft", torch.tensor(tokens, dtype=torch.long), *rows, torch.tensor(us))
    return call("verify_draft", tokens, *rows, us)


def draft(rng: Generator, *kinds: str, tensors: bool = False) -> Case:
    """A draft with a token of each kind, in this order."""
    return Case(step([place(rng, kind) for kind in kinds], row(rng), tensors))


def at_the_edge(rng: Generator, q0: float, p0: float, u: float) -> Case:
    """One token with these probabilities and this number; the rest of each row is spread, unevenly."""
    q, p = (np.full(WIDTH, (1 - x) / 8) for x in (q0, p0))
    q[0], p[0] = q0, p0
    q[1] += 1 - q.sum()
    p[2] += 1 - p.sum()
    order = rng.permutation(WIDTH)
    return Case(step([Place(int(np.flatnonzero(order == 0)[0]), q[order], p[order], u)], row(rng)))


def sure(rng: Generator, before: int) -> Case:
    """A rejected token of which the draft was sure (as a table or the prompt gives it), after some accepted ones."""
    while (p := row(rng)).max() > 0.8:
        pass
    token = int(p.argmax())
    last = Place(token, np.eye(WIDTH)[token], p, round(float(p[token]) + 0.1, 3))
    return Case(step([*(place(rng, "liked") for _ in range(before)), last], row(rng)))
