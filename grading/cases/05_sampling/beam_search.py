"""Held-out cases of beam_search. The model lives in the grader and is called over the pipe.

Random trees are drawn again until every cut is clear (no two scores near each other) and until the case shows what its
group is about: that greedy loses, that a beam ends and stays, that an ended one falls out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from numpy.random import Generator

from cases.beam_searches import (
    ASIDE,
    BY_LENGTH,
    DROPPED,
    EACH_GREEDY,
    EOS,
    EOS_ANYWHERE,
    FIRST_END,
    GREEDY,
    IGNORED,
    NEVER,
    ONE_PARENT,
    PADDED,
    RIGHT,
    VOCAB,
    Beam,
    Model,
    Search,
    best,
    by,
)
from kvgrade.cases import Case, Exercise, Group, Mistake, call, observe, run_here, unchanged
from kvgrade.inside.wire import Callback

GAP = 0.02  # between any two scores that are compared at a cut


def _clear(case: Case) -> bool:
    """Whether no two scores at any cut lie within GAP, the best one left out included."""
    gaps = [math.inf]

    def cut(pool: list[Beam], n_beams: int) -> list[Beam]:
        scores = [beam.total for beam in best(pool, n_beams + 1)]
        gaps.extend(a - b for a, b in pairwise(scores))
        return best(pool, n_beams)

    run_here(case, Search(cut=cut).names())
    return min(gaps) > GAP


def _texts(case: Case, search: Search) -> list[list[int]]:
    return [list(text) for text, _ in run_here(case, search.names())[0]["value"]]


def _drawn(
    rng: Generator,
    start: list[int],
    n_beams: int,
    max_new: int,
    eos: float = NEVER,
    first: float | None = None,
    differs: Sequence[Search] = (),
    shows: Callable[[int, int], bool] = lambda ended, number: True,
    watched: bool = False,
    seen: bool = False,
) -> Case:
    """A case with clear cuts whose right texts differ from those of these searches.

    shows: gets how many of the right beams have ended, and how many there are. watched: the start has to stay.
    seen: what the model was asked about counts.
    """
    step = call("beam_search", Callback("next_log_probs"), start, n_beams, max_new, EOS)
    steps = [step, *([unchanged(0)] if watched else []), *([observe()] if seen else [])]
    while True:
        seed = int(rng.integers(1 << 30))
        case = Case(*steps, world=lambda seed=seed: Model(seed, len(start), eos, first))
        texts = _texts(case, RIGHT)
        ended = sum(text[-1] == EOS for text in texts)
        if shows(ended, len(texts)) and _clear(case) and all(_texts(case, other) != texts for other in differs):
            return case


def _start(rng: Generator, n: int) -> list[int]:
    return rng.integers(0, EOS, n).tolist()


def _one_step(rng: Generator) -> list[Case]:
    return [_drawn(rng, _start(rng, n), n_beams, 1) for n, n_beams in ((1, 2), (3, 3), (2, VOCAB + 2))]


def _one_beam(rng: Generator) -> list[Case]:
    return [_drawn(rng, _start(rng, n), 1, max_new) for n, max_new in ((1, 4), (3, 6))]


def _several(rng: Generator) -> list[Case]:
    against = [*GREEDY, *ONE_PARENT, *EACH_GREEDY]
    sizes = ((2, 2, 4), (3, 3, 3), (1, 4, 5))
    return [_drawn(rng, _start(rng, n), n_beams, max_new, differs=against) for n, n_beams, max_new in sizes]


def _an_end(rng: Generator) -> list[Case]:
    """A beam ends and is among the best at the end, another one goes on; shorter and longer are weighed."""
    against = [*IGNORED, *DROPPED, *BY_LENGTH, *FIRST_END, *PADDED]
    sizes = ((2, 2, 3), (1, 3, 3))
    return [
        _drawn(rng, _start(rng, n), n_beams, max_new, 0.7, differs=against, shows=lambda ended, n: 0 < ended < n)
        for n, n_beams, max_new in sizes
    ]


def _falls_out(rng: Generator) -> list[Case]:
    """A beam ends at the first step and is kept; later it is pushed out."""
    against = [*ASIDE, *FIRST_END]
    return [
        _drawn(rng, _start(rng, n), 2, 3, NEVER, 1.0, differs=against, shows=lambda ended, n: ended == 0)
        for n in (1, 2)
    ]


def _at_once(rng: Generator) -> list[Case]:
    """The only beam ends at the first step."""
    return [
        _drawn(rng, _start(rng, n), 1, max_new, 0.0, 6.0, shows=lambda ended, n: ended == n, seen=True)
        for n, max_new in ((2, 30), (1, 8))
    ]


def _from_start(rng: Generator) -> list[Case]:
    """An eos inside the start, and a start that has to stay as it is."""
    starts = [[EOS, *_start(rng, 1)], [*_start(rng, 1), EOS, *_start(rng, 2)]]
    return [_drawn(rng, start, 1, 1, watched=True) for start in starts]


def _nothing(rng: Generator) -> list[Case]:
    return [_drawn(rng, _start(rng, n), n_beams, 0) for n, n_beams in ((1, 1), (4, 3))]


def _refused(rng: Generator, *sizes: tuple[int, int]) -> list[Case]:
    """A call that has to raise, and a good one: one beam, one step, from one token."""
    cases = []
    for n_beams, max_new in sizes:
        good = _drawn(rng, _start(rng, 1), 1, 1)
        bad = call("beam_search", Callback("next_log_probs"), _start(rng, 1), n_beams, max_new, EOS)
        cases.append(Case(bad, *good.steps, world=good.world))
    return cases


def _mistake(name: str, why: str, *ways: Search) -> Mistake:
    return Mistake(name, why, [way.names() for way in ways])


def _mean(beam: Beam) -> float:
    return beam.total / max(len(beam.steps), 1)


def _last(beam: Beam) -> float:
    return beam.steps[-1] if beam.steps else 0.0


EXERCISE = Exercise(
    "beam_search",
    RIGHT.names(),
    groups=[
        Group("one step", 0.25, "the n_beams most likely tokens, best first, after the start", _one_step),
        Group("one beam", 0.5, "one beam takes the most likely token each time; the score adds them up", _one_beam),
        Group("several beams", 0.5, "the extensions of all beams compete for n_beams places", _several),
        Group("an end", 0.25, "a beam that ends keeps its score and competes; the others go on", _an_end),
        Group("an ended beam falls out", 0.25, "an ended beam has to compete for its place", _falls_out),
        Group("all ended", 0.25, "when all kept beams have ended the search stops", _at_once),
        Group("the start", 0.25, "the start stays as it is, and an eos inside it ends nothing", _from_start),
        Group("nothing to add", 0.25, "max_new = 0 gives the start with score 0", _nothing),
        Group(
            "n_beams below 1", 0.25, "n_beams < 1 raises ValueError", lambda r: _refused(r, (0, 2), (-1, 2), (-3, 1))
        ),
        Group("max_new below 0", 0.25, "max_new < 0 raises ValueError", lambda r: _refused(r, (1, -1), (2, -3))),
    ],
    mistakes=[
        _mistake("greedy", "n_beams sequences are kept after each step, not only the best one", *GREEDY),
        _mistake("each beam greedy", "two of the kept may come from one beam: all extensions compete", *EACH_GREEDY),
        _mistake("best beam only", "every beam is extended, not only the best one", *ONE_PARENT),
        _mistake("eos ignored", "a beam that ends in eos is not extended", *IGNORED),
        _mistake("ended beams lost", "a beam that has ended keeps its place and is returned", *DROPPED),
        _mistake("ended beams aside", "ended beams compete with the others for the n_beams places", *ASIDE),
        _mistake("padded with eos", "an ended beam stays as it is: one eos, no more", *PADDED),
        _mistake("stops at the first end", "the search goes on while a kept beam has not ended", *FIRST_END),
        _mistake("divided by length", "scores are compared as they are, without a length penalty", *BY_LENGTH),
        _mistake("mean returned", "the score is the sum of the log probabilities, not their mean", Search(score=_mean)),
        _mistake(
            "score of the newest token",
            "the score adds up all new tokens, not only the newest",
            Search(score=_last),
            Search(score=_last, cut=by(_last)),
        ),
        _mistake(
            "probability returned",
            "the score is a log probability",
            Search(score=lambda beam: math.exp(beam.total)),
            Search(score=lambda beam: -beam.total),
        ),
        _mistake("worst first", "the best beam comes first", Search(answer=lambda found: found[::-1])),
        _mistake(
            "best only", "all kept beams are returned", *(Search(answer=f) for f in (lambda x: x[:1], lambda x: x[0]))
        ),
        _mistake("start left out", "the returned tokens begin with the start", Search(text=lambda start, new: new)),
        _mistake(
            "eos left out",
            "the returned tokens include the eos",
            Search(text=lambda start, new: start + [token for token in new if token != EOS]),
        ),
        _mistake(
            "part of the text",
            "next_log_probs gets all tokens so far, the start included",
            Search(sees=lambda start, new: (start + new)[-1:]),
            Search(sees=lambda start, new: new),
            Search(sees=lambda start, new: start),
        ),
        _mistake(
            "number of steps",
            "max_new steps are made",
            Search(steps=lambda n: n + 1),
            Search(steps=lambda n: n - 1),
        ),
        _mistake("eos anywhere", "an eos inside the start ends nothing", *EOS_ANYWHERE),
        _mistake(
            "asks about ended beams", "when all beams have ended the model is not called any more", Search(asks=True)
        ),
        _mistake("start changed", "the start has to stay as it is: extend a copy", Search(in_place=True)),
        _mistake(
            "sizes unchecked",
            "n_beams below 1 and max_new below 0 have to raise ValueError",
            *(
                Search(few=few, back=back, cut=cut, few_raises=error)
                for few, back in ((False, True), (True, False), (False, False))
                for cut in (best, lambda pool, n_beams: best(pool, max(n_beams, 0)))
                for error in (None, IndexError, RuntimeError, TypeError)
            ),
        ),
    ],
)
