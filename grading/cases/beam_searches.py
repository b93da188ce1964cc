"""Beam search for the cases of `beam_search`: the model that lives in the grader, and the search, right and wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

VOCAB, EOS = 6, 5
NEVER = -30.0  # added to the logit of eos, so that nothing ends
LONGEST = 64  # ids that the model reads; far beyond any case


class Model:
    """The other side: log probabilities made from all ids so far. `ended`: it was asked about a text that had ended.

    eos is added to the logit of eos, `first` in its place at the first step.
    """

    def __init__(self, seed: int, n_start: int, eos: float = NEVER, first: float | None = None) -> None:
        self.seed, self.n_start, self.eos = seed, n_start, eos
        self.first = eos if first is None else first
        self.ended = False
        self.functions: Mapping[str, Callable[..., Any]] = {"next_log_probs": self.next_log_probs}

    def next_log_probs(self, tokens: Any) -> Any:
        """(VOCAB,). What comes from an answer may be anything: ValueError for what can't be used."""
        if not isinstance(tokens, list | tuple | np.ndarray | torch.Tensor):
            raise ValueError("next_log_probs takes the list of ids so far")
        ids = np.asarray(tokens)
        if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu") or ((ids < 0) | (ids >= VOCAB)).any():
            raise ValueError(f"next_log_probs takes the list of ids so far, each from 0 to {VOCAB - 1}")
        if len(ids) > LONGEST:  # no error, which an answer could pass on as its own
            return torch.zeros(VOCAB, dtype=torch.float64)
        self.ended = self.ended or EOS in ids[self.n_start :]
        values = np.random.default_rng([self.seed, len(ids), *ids.tolist()]).normal(size=VOCAB) * 1.2
        values[EOS] += self.first if len(ids) <= self.n_start else self.eos
        return torch.from_numpy(values - np.log(np.exp(values).sum()))

    def observe(self) -> Any:
        return {"asked_after_the_end": self.ended}


class Beam(NamedTuple):
    """Tokens after the start, and the log probability of each."""

    new: tuple[int, ...] = ()
    steps: tuple[float, ...] = ()

    @property
    def ended(self) -> bool:
        return self.new[-1:] == (EOS,)

    @property
    def total(self) -> float:
        return math.fsum(self.steps)


def best(pool: list[Beam], n_beams: int) -> list[Beam]:
    return sorted(pool, key=lambda beam: beam.total, reverse=True)[:n_beams]


def by(key: Callable[[Beam], float]) -> Callable[[list[Beam], int], list[Beam]]:
    """A cut by another measure."""
    return lambda pool, n_beams: sorted(pool, key=key, reverse=True)[:n_beams]


def children(beam: Beam, values: Sequence[float]) -> list[Beam]:
    return [Beam((*beam.new, token), (*beam.steps, value)) for token, value in enumerate(values)]


@dataclass(frozen=True)
class Search:
    """Beam search, with the ways to get it wrong as fields.

    ends: whether a beam has ended. cut: the beams that stay. goes_on: which beams are extended. extended: how.
    aside: ended beams leave their place; "all" gives them back beside the others, "cut" lets all compete in the end,
    "lost" forgets them. stops: at the first ended beam. asks: the model is asked about ended beams too.
    sees: what the model gets. score, text: what is returned of a beam; answer: what of the list. steps: from max_new.
    silent: it is not asked about ended beams. few, back: refuse n_beams < 1, max_new < 0; few_raises: the error that comes without that check.
    """

    ends: Callable[[Sequence[int], Beam], bool] = lambda start, beam: beam.ended
    cut: Callable[[list[Beam], int], list[Beam]] = best
    goes_on: Callable[[list[Beam]], list[Beam]] = lambda live: live
    extended: Callable[[Beam, Sequence[float]], list[Beam]] = children
    aside: str = ""
    stops: bool = False
    asks: bool = False
    silent: bool = False
    sees: Callable[[list[int], list[int]], list[int]] = lambda start, new: start + new
    score: Callable[[Beam], float] = lambda beam: beam.total
    text: Callable[[list[int], list[int]], list[int]] = lambda start, new: start + new
    answer: Callable[[list[Any]], Any] = lambda found: found
    steps: Callable[[int], int] = lambda max_new: max_new
    few: bool = True
    few_raises: type[Exception] | None = None
    back: bool = True
    in_place: bool = False

    def names(self) -> dict[str, Any]:
        return {"beam_search": self.run}

    def run(self, next_log_probs: Any, start: list[int], n_beams: int, max_new: int, eos: int) -> Any:
        if (n_beams < 1 and self.few) or (max_new < 0 and self.back):
            raise ValueError
        if n_beams < 1 and self.few_raises:
            raise self.few_raises
        beams, apart = [Beam()], []
        for _ in range(self.steps(max_new)):
            live = [beam for beam in beams if not self.ends(start, beam)]
            if not live or (self.stops and len(live) < len(beams)):
                break
            if self.aside:
                apart += [beam for beam in beams if beam not in live]
            pool = [] if self.aside else [beam for beam in beams if beam not in live]
            for beam in self.goes_on(live):
                seen = self.sees(list(start), list(beam.new))
                pool += self.extended(beam, [] if self.silent and beam.ended else next_log_probs(seen).tolist())
            beams = self.cut(pool, n_beams)
        if self.asks and any(beam.ended for beam in beams):
            next_log_probs([*start, *next(beam.new for beam in beams if beam.ended)])
        if self.aside == "lost":
            beams = [beam for beam in beams if not beam.ended]
        elif self.aside:
            beams = best(beams + apart, n_beams if self.aside == "cut" else len(beams + apart))
        found = [(self.text(list(start), list(beam.new)), self.score(beam)) for beam in beams]
        if self.in_place:
            start.append(eos)
        return self.answer(found)


def _each_greedy(beam: Beam, values: Sequence[float]) -> list[Beam]:
    """After the first step a beam has one child."""
    return children(beam, values) if not beam.new else best(children(beam, values), 1)


def _padded(beam: Beam, values: Sequence[float]) -> list[Beam]:
    """An ended beam goes on with eos, at no cost."""
    return [Beam((*beam.new, EOS), (*beam.steps, 0.0))] if beam.ended else children(beam, values)


def _never(start: Sequence[int], beam: Beam) -> bool:
    return False


RIGHT = Search()
GREEDY = [
    Search(cut=lambda pool, n_beams: best(pool, 1)),
    Search(extended=lambda b, values: best(children(b, values), 1)),
]
EACH_GREEDY = [Search(extended=_each_greedy)]
ONE_PARENT = [Search(goes_on=lambda live: live[:1])]
IGNORED = [Search(ends=_never)]
DROPPED = [
    Search(aside="lost"),
    Search(ends=_never, cut=lambda pool, n_beams: best([beam for beam in pool if not beam.ended], n_beams)),
]
ASIDE = [
    Search(aside=aside, cut=cut)
    for aside in ("all", "cut")
    for cut in (best, lambda pool, n: best(pool, n + sum(beam.ended for beam in best(pool, n))))
]
PADDED = [Search(ends=_never, extended=_padded, silent=silent) for silent in (True, False)]
FIRST_END = [Search(stops=True)]
BY_LENGTH = [
    Search(cut=by(lambda beam: beam.total / len(beam.steps))),
    Search(cut=by(lambda beam: beam.total / len(beam.steps)), score=lambda beam: beam.total / max(len(beam.steps), 1)),
]
EOS_ANYWHERE = [Search(ends=lambda start, beam: EOS in [*start, *beam.new])]
