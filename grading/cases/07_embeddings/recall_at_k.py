"""Held-out cases of recall_at_k. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from numpy.random import Generator

from cases.search_draws import Ids, Rankings
from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Share = Callable[[Ids, Ids, int], float]
Lists = tuple[list[Ids], list[Ids]]
NAME = "recall_at_k"


def _hits(found: Ids, wanted: Ids, k: int) -> int:
    """Different relevant ids in the first k, one id at a time."""
    seen: Ids = []
    for place, doc in enumerate(found):
        if place < k and doc in wanted and doc not in seen:
            seen.append(doc)
    return len(seen)


def _different(ids: Ids) -> int:
    return sum(doc not in ids[:i] for i, doc in enumerate(ids))


def _share(found: Ids, wanted: Ids, k: int) -> float:
    return _hits(found, wanted, k) / _different(wanted)


def _fails(error: type[Exception]) -> Any:
    raise error


def _recall(
    share: Share = _share,
    mean: Callable[[Sequence[float]], float] = lambda shares: sum(shares) / len(shares),
    no_queries: Callable[[], Any] = lambda: _fails(ValueError),
    unequal: Callable[[Lists], Lists] = lambda lists: _fails(ValueError),
    nothing: Callable[[], float | None] = lambda: _fails(ValueError),
    bad_k: Callable[[int], int] = lambda k: _fails(ValueError),
    total: Callable[[list[tuple[Ids, Ids]], int], float] | None = None,
    spoils: bool = False,
) -> dict[str, Any]:
    """Query by query, with the ways to get it wrong as arguments.

    unequal: what is made of lists of unequal lengths. nothing: the share of a query without a relevant id, None to leave
    it out. bad_k: the k that is used for one below 1. total: replaces shares and mean.
    """

    def recall_at_k(ranked: list[Ids], relevant: list[Ids], k: int) -> Any:
        if k < 1:
            k = bad_k(k)
        if len(ranked) != len(relevant):
            ranked, relevant = unequal((ranked, relevant))
        if not ranked:
            return no_queries()
        pairs = list(zip(ranked, relevant, strict=True))
        if total and all(relevant):
            return total(pairs, k)
        shares = [share(found, wanted, k) if wanted else nothing() for found, wanted in pairs]
        if spoils:
            for found in ranked:
                del found[k:]
        return mean([x for x in shares if x is not None])

    return {NAME: recall_at_k}


def _cut(lists: Lists) -> Lists:
    n = min(map(len, lists))
    return lists[0][:n], lists[1][:n]


def _padded(lists: Lists) -> Lists:
    """One list is gone through by its index: too short a partner ends in an IndexError."""
    if len(lists[1]) < len(lists[0]):
        raise IndexError
    return lists[0], lists[1][: len(lists[0])]


def _case(queries: Sequence[tuple[Ids, Ids]], k: int) -> Case:
    return Case(call(NAME, [found for found, _ in queries], [wanted for _, wanted in queries], int(k)))


def _one_each(rng: Generator) -> list[Case]:
    """The one relevant id just inside, just outside, far behind, nowhere."""
    cases = []
    for k in (3, 6):
        draw = Rankings(rng)
        queries = [draw.query(k, [place]) for place in (k - 1, k - 1, k, k + 4, 0)] + [draw.query(k, [], 1)]
        cases.append(_case(queries, k))
    return [Case(*cases[0].steps, unchanged(0)), cases[1]]


def _several(rng: Generator) -> list[Case]:
    """Three relevant ids for each query, one more found by a list that is one longer."""
    cases = []
    for k in (4, 7):
        draw = Rankings(rng)
        cases.append(
            _case([draw.query(k, [*draw.places(k, 1), k - 1, k]), draw.query(k, [*draw.places(k, 2), k + 3])], k)
        )
    return cases


def _unlike(rng: Generator) -> list[Case]:
    """Few relevant ids, all found, beside many, hardly any found."""
    cases = []
    for k in (5, 8):
        draw = Rankings(rng)
        few, many = draw.query(k, draw.places(k, 1)), draw.query(k, draw.places(k, 1), int(rng.integers(2, 4)))
        cases.append(_case([few, many, draw.query(k, draw.places(k, 2))], k))
    return cases


def _more_than_k(rng: Generator) -> list[Case]:
    cases = []
    for k in (3, 4):
        draw = Rankings(rng)
        cases.append(_case([draw.query(k, draw.places(k, 2), k), draw.query(k, draw.places(k, 1), k + 1)], k))
    return cases


def _short(rng: Generator) -> list[Case]:
    """Lists shorter than k, and empty ones."""
    draw = Rankings(rng)
    k = 8
    queries = [draw.query(k, [1], 0, 4), draw.query(k, [], 1, 0), draw.query(k, [0], 0, 2), draw.query(k, [], 1, 3)]
    return [_case(queries, k), _case(queries[:2], k)]


def _twice(rng: Generator) -> list[Case]:
    """An id that stands twice: in the ranking, in the relevant ids."""
    draw, k = Rankings(rng), 6
    found, wanted = draw.query(k, [1], 1)
    found[3] = found[1]
    again, marked = draw.query(k, [2], 1)
    marked.append(again[2])
    return [_case([(found, wanted)], k), _case([(again, marked)], k)]


def _good(draw: Rankings) -> tuple[Any, ...]:
    return _case([draw.query(3, [0]), draw.query(3, [], 1)], 3).steps


def _no_pairs(rng: Generator) -> list[Case]:
    """No queries; one list longer than the other, either way."""
    draw = Rankings(rng)
    found, wanted = zip(*(draw.query(3, [1]) for _ in range(3)), strict=True)
    bad = [
        call(NAME, [], [], 3),
        call(NAME, list(found), list(wanted[:2]), 3),
        call(NAME, list(found[:2]), list(wanted), 3),
    ]
    return [Case(step, *_good(draw)) for step in bad]


def _nothing_relevant(rng: Generator) -> list[Case]:
    draw = Rankings(rng)
    none = draw.query(3, [])
    return [
        Case(*_case(queries, 3).steps, *_good(draw))
        for queries in ([none], [draw.query(3, [1]), none, draw.query(3, [0])])
    ]


def _below_one(rng: Generator) -> list[Case]:
    draw = Rankings(rng)
    return [Case(*_case([draw.query(3, [0]), draw.query(3, [1])], k).steps, *_good(draw)) for k in (0, -1, -3)]


EXERCISE = Exercise(
    NAME,
    _recall(),
    groups=[
        Group("one relevant id", 0.5, "found when it is among the first k; the mean over the queries", _one_each),
        Group("several relevant ids", 0.5, "the share of them that is among the first k", _several),
        Group("unlike queries", 0.5, "a share for each query, then the mean: each query counts alike", _unlike),
        Group("more relevant ids than k", 0.25, "divide by the number of relevant ids", _more_than_k),
        Group("short rankings", 0.25, "a ranking may be shorter than k, or empty", _short),
        Group("ids twice", 0.25, "each id counts once, in both lists", _twice),
        Group(
            "no queries, unequal lengths", 0.25, "no queries or lists of unequal lengths raise ValueError", _no_pairs
        ),
        Group("nothing relevant", 0.25, "a query with nothing relevant raises ValueError", _nothing_relevant),
        Group("k below 1", 0.25, "k below 1 raises ValueError", _below_one),
    ],
    mistakes=[
        Mistake(
            "precision",
            "divide by the number of relevant ids: dividing by k is precision",
            [
                _recall(lambda f, w, k: _hits(f, w, k) / k),
                _recall(lambda f, w, k: _hits(f, w, k) / max(1, len(f[:k]))),
            ],
        ),
        Mistake(
            "hit or miss",
            "a share: two of three relevant ids are two thirds, not 1",
            _recall(lambda f, w, k: float(_hits(f, w, k) > 0)),
        ),
        Mistake(
            "divided by at most k",
            "divide by the number of relevant ids, also when there are more than k",
            _recall(lambda f, w, k: _hits(f, w, k) / min(k, _different(w))),
        ),
        Mistake(
            "one sum over all queries",
            "each query counts alike: a share for each, then their mean",
            _recall(
                total=lambda pairs, k: sum(_hits(f, w, k) for f, w in pairs) / sum(_different(w) for _, w in pairs)
            ),
        ),
        Mistake("not averaged", "the mean of the shares, not their sum", _recall(mean=sum)),
        Mistake(
            "one result too few", "the first k results: places 0 to k - 1", _recall(lambda f, w, k: _share(f, w, k - 1))
        ),
        Mistake(
            "one result too many",
            "the first k results: places 0 to k - 1",
            _recall(lambda f, w, k: _share(f, w, k + 1)),
        ),
        Mistake("k ignored", "only the first k results count", _recall(lambda f, w, k: _share(f, w, len(f)))),
        Mistake(
            "found twice",
            "an id that was found twice counts once",
            _recall(lambda f, w, k: sum(doc in w for doc in f[:k]) / _different(w)),
        ),
        Mistake(
            "written down twice",
            "an id that stands twice among the relevant ones counts once",
            [
                _recall(lambda f, w, k: _hits(f, w, k) / len(w)),
                _recall(lambda f, w, k: sum(doc in f[:k] for doc in w) / len(w)),
            ],
        ),
        Mistake("lists changed", "take nothing out of the lists: they stay as they are", _recall(spoils=True)),
        Mistake(
            "no queries pass",
            "without a query there is no mean: raise ValueError",
            [
                _recall(no_queries=lambda: 0.0),
                _recall(no_queries=lambda: math.nan),
                _recall(no_queries=lambda: _fails(ZeroDivisionError)),
            ],
        ),
        Mistake(
            "unequal lengths pass",
            "as many rankings as lists of relevant ids, else ValueError: zip stops at the shorter one",
            [_recall(unequal=_cut), _recall(unequal=_padded)],
        ),
        Mistake(
            "lengths and queries unchecked",
            "no queries, and lists of unequal lengths, have to raise ValueError",
            [
                _recall(unequal=_cut, no_queries=lambda: 0.0),
                _recall(unequal=_cut, no_queries=lambda: _fails(ZeroDivisionError)),
                _recall(unequal=_padded, no_queries=lambda: _fails(ZeroDivisionError)),
            ],
        ),
        Mistake(
            "nothing relevant passes",
            "a query with nothing relevant has no share: raise ValueError",
            [
                _recall(nothing=lambda: 0.0),
                _recall(nothing=lambda: 1.0),
                _recall(nothing=lambda: _fails(ZeroDivisionError)),
                *(
                    _recall(
                        nothing=lambda: None, mean=lambda shares, e=empty: sum(shares) / len(shares) if shares else e()
                    )
                    for empty in (
                        lambda: 0.0,
                        lambda: math.nan,
                        lambda: _fails(ValueError),
                        lambda: _fails(ZeroDivisionError),
                    )
                ),
            ],
        ),
        Mistake(
            "k below 1 passes",
            "k below 1 has to raise ValueError",
            [
                _recall(bad_k=lambda k: k),
                _recall(lambda f, w, k: _share(f[:k], w, len(f)), bad_k=lambda k: k),
                _recall(lambda f, w, k: _share(f[:k], w, len(f)), bad_k=lambda k: k if k else _fails(ValueError)),
                _recall(lambda f, w, k: _share(f[:k], w, len(f)), bad_k=lambda k: k if k == 0 else _fails(ValueError)),
            ],
        ),
    ],
)
