"""Beam search: keep the few most probable sequences so far, extend each, keep the best again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from kvlab.sampling._checks import check_logits, whole_number


class Beam(NamedTuple):
    """One sequence so far: its tokens (start included), the log probability of the new ones, and whether it ended."""

    tokens: list[int]
    score: float
    ended: bool


def beam_search(
    next_log_probs: Callable[[list[int]], torch.Tensor],
    start: Sequence[int],
    n_beams: int,
    max_new: int,
    eos: int | None,
) -> list[tuple[list[int], float]]:
    """Search for continuations of `start` with a high total log probability; returns [(tokens, score)], best first.

    next_log_probs: gets the whole list of ids so far, returns log probabilities of shape (vocab,).
    start: ids of the prompt; part of the returned tokens, not of the score.
    n_beams: how many sequences are kept after every step, >= 1; 1 is greedy decoding.
    max_new: most tokens to add; 0 gives [(start, 0.0)].
    eos: id that ends a sequence, None if there is none. A beam that has ended keeps its score and competes with the
        others for the n_beams places; the search stops when all kept beams have ended.
    There is no length penalty: every token adds a negative number, so short endings are favoured.
    Equal scores keep the order in which they were found; continuations of probability 0 are dropped.
    Bad numbers, and log probabilities that are NaN or of the wrong shape, raise ValueError.
    """
    n_beams = whole_number(n_beams, "n_beams", 1)
    max_new = whole_number(max_new, "max_new", 0)
    eos = None if eos is None else whole_number(eos, "eos", 0)
    beams = [Beam([whole_number(token, "an id in start", 0) for token in start], 0.0, False)]
    for _ in range(max_new):
        if all(beam.ended for beam in beams):
            break
        candidates: list[Beam] = []
        for beam in beams:
            if beam.ended:
                candidates.append(beam)
            else:
                candidates.extend(extend(beam, next_log_probs(list(beam.tokens)), n_beams, eos))
        if not candidates:
            raise ValueError("next_log_probs gives every token probability 0, so no beam can go on")
        beams = best(candidates, n_beams)
    return [(beam.tokens, beam.score) for beam in beams]


def extend(beam: Beam, log_probs: torch.Tensor, n_beams: int, eos: int | None) -> list[Beam]:
    """The `n_beams` best one-token continuations of a beam: no other can be among the n_beams best overall."""
    check_logits(log_probs, "the result of next_log_probs")
    if bool(log_probs.isnan().any()):
        raise ValueError("next_log_probs returned NaN")
    values, ids = log_probs.topk(min(n_beams, log_probs.numel()))
    return [
        Beam([*beam.tokens, token], beam.score + value, token == eos)
        for value, token in zip(values.tolist(), ids.tolist(), strict=True)
        if value > float("-inf")
    ]


def best(candidates: list[Beam], n_beams: int) -> list[Beam]:
    """The `n_beams` candidates with the highest score, best first, whether ended or not."""
    return sorted(candidates, key=lambda beam: beam.score, reverse=True)[:n_beams]
