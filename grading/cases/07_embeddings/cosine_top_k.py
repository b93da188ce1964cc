"""Held-out cases of cosine_top_k. The oracle is written apart from the unit's solution and from kvlab.

Documents are drawn by their cosines, which keep away from each other, so that no rounding can change the order.
Vectors have length 1 unless a group wants others: then an answer that forgets a length fails that group only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.search_draws import WIDTH, cosines, direction, doc_at
from cases.typed_results import by_step
from kvgrade.cases import Case, Exercise, Group, Mistake, Step, call, unchanged
from kvgrade.verdict import same_value
from kvlab.check.compare import to_array

NAME = "cosine_top_k"
Score = Callable[[Sequence[float], Sequence[float]], float]
Found = list[tuple[float, int]]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=False))


def _length(a: Sequence[float]) -> float:
    return math.sqrt(_dot(a, a))


def _cosine(query: Sequence[float], doc: Sequence[float]) -> float:
    lengths = _length(query) * _length(doc)
    return _dot(query, doc) / lengths if lengths else 0.0


def _refuse(n: int) -> Any:
    raise ValueError


def _search(
    score: Score = _cosine,
    pick: Callable[[Found, int], Found] = lambda found, k: sorted(found, reverse=True)[:k],
    bad_k: Callable[[int, int], bool] = lambda k, n: not 1 <= k <= n,
    other_error: type[Exception] | None = None,
    wide: Callable[[int, int], bool] = lambda q, d: q != d,
    wide_error: type[Exception] = ValueError,
    zero: Callable[[bool, int], Any] | None = None,
    swapped: bool = False,
    spoils: bool = False,
) -> dict[str, Any]:
    """Document by document, with the ways to get it wrong as arguments.

    other_error: what a k above N raises instead. wide: which widths are refused, with wide_error.
    zero: the score of a pair with a zero vector in it; told whether that is the query.
    """

    def cosine_top_k(query: torch.Tensor, docs: torch.Tensor, k: int) -> Any:
        if wide(len(query), docs.shape[1]):
            raise wide_error
        if bad_k(k, len(docs)):
            raise ValueError
        if other_error and k > len(docs):
            raise other_error
        q = query.double().tolist()
        found: Found = []
        for i, doc in enumerate(docs.double().tolist()):
            nothing = not any(q) or not any(doc)
            found.append((zero(not any(q), i) if zero and nothing else score(q, doc), i))
        best = pick(found, k)
        if spoils:
            docs /= docs.norm(dim=1, keepdim=True)
        result = np.array([s for s, _ in best]), np.array([i for _, i in best], dtype=np.int64)
        return result[::-1] if swapped else result

    return {NAME: cosine_top_k}


def _raw(answer: Callable[[torch.Tensor, torch.Tensor, int], Any]) -> dict[str, Any]:
    return {NAME: answer}


def _unguarded(query: torch.Tensor, docs: torch.Tensor, k: int) -> Any:
    """torch as it comes: errors of another class, and widths of 1 that broadcast."""
    return tuple(torch.nn.functional.cosine_similarity(query[None], docs).topk(k))


def _by_product(query: torch.Tensor, docs: torch.Tensor, k: int) -> Any:
    unit = torch.nn.functional.normalize
    return tuple((unit(docs, dim=1) @ unit(query, dim=0)).topk(k))


def _k_checked(answer: Callable[..., Any]) -> dict[str, Any]:
    def cosine_top_k(query: torch.Tensor, docs: torch.Tensor, k: int) -> Any:
        if not 1 <= k <= len(docs):
            raise ValueError
        return answer(query, docs, k)

    return _raw(cosine_top_k)


def _same(step: Step, have: Any, want: Any) -> bool:
    """As usual; for a query of zeros all scores are equal, so any k documents are right, each once."""
    if step["do"] != "call":
        return same_value(have, want, 0.0, 0.0)
    if not isinstance(want, tuple):
        return same_value(have, want, 1e-3, 1e-4)
    pair = list(have) if isinstance(have, list | tuple | np.ndarray) else []
    if len(pair) != 2 or not same_value(pair[0], want[0], 1e-3, 1e-4):
        return False
    query, docs = step["args"][0], step["args"][1]
    if bool(query.any()):
        return same_value(pair[1], want[1], 0.0, 0.0)
    rows = to_array(pair[1])
    if rows is None or rows.shape != np.shape(want[1]):
        return False
    ids = rows.tolist()
    return len(set(ids)) == len(ids) and all(i in range(len(docs)) for i in ids)


def _case(
    rng: Generator,
    wanted: Sequence[float],
    k: int,
    query_length: float = 1.0,
    lengths: Sequence[float] | None = None,
    cut: int = WIDTH,
) -> Case:
    """cut: the query keeps so many of its numbers."""
    query = direction(rng)
    docs = np.stack([doc_at(rng, query, cosine) for cosine in wanted])
    docs *= np.array(lengths if lengths is not None else [1.0] * len(docs))[:, None]
    tensors = [torch.from_numpy(x.astype(np.float32)) for x in (query_length * query[:cut], docs)]
    return Case(call(NAME, *tensors, int(k)))


def _units(rng: Generator) -> list[Case]:
    return [_case(rng, cosines(rng, n), k) for n, k in ((6, 3), (9, 4), (5, 2))]


def _documents(rng: Generator) -> list[Case]:
    """The better the direction, the shorter the vector: by dot products the order is another one."""
    cases = []
    for n, k in ((6, 3), (8, 5)):
        drawn = cosines(rng, n)
        cases.append(_case(rng, drawn, k, lengths=[float(rng.uniform(0.9, 1.1)) / c**2 for c in drawn]))
    return [Case(*cases[0].steps, unchanged(0)), cases[1]]


def _queries(rng: Generator) -> list[Case]:
    return [_case(rng, cosines(rng, 6), 3, query_length=length) for length in (0.2, 7.0)]


def _opposite(rng: Generator) -> list[Case]:
    """More than half point away, the worst of all most of all."""
    cases = []
    for n, k in ((6, 4), (5, 5)):
        drawn = [c if i < 2 else -c for i, c in enumerate(cosines(rng, n, 0.15))]
        cases.append(_case(rng, [*drawn, -0.97], k))
    return cases


def _ends(rng: Generator) -> list[Case]:
    return [_case(rng, cosines(rng, n), k) for n, k in ((7, 1), (6, 6), (1, 1))]


def _zero_document(rng: Generator) -> list[Case]:
    """It stands in the middle: some documents point away."""
    cases = []
    for n, k in ((4, 3), (6, 6)):
        drawn = [c if i < 2 else -0.1 - 0.3 * c for i, c in enumerate(cosines(rng, n, 0.4))]
        at = int(rng.integers(n))
        cases.append(_case(rng, drawn, k, lengths=[0.0 if i == at else 1.0 for i in range(n)]))
    return cases


def _zero_query(rng: Generator) -> list[Case]:
    return [_case(rng, cosines(rng, n), k, query_length=0.0) for n, k in ((5, 3), (4, 4))]


def _bad_k(rng: Generator) -> list[Case]:
    good = _case(rng, cosines(rng, 4), 2).steps
    return [Case(*_case(rng, cosines(rng, n), k).steps, *good) for n, k in ((5, 0), (5, -1), (4, -4), (5, 6), (3, 40))]


def _widths(rng: Generator) -> list[Case]:
    good = _case(rng, cosines(rng, 4), 2).steps
    return [Case(*_case(rng, cosines(rng, 4), 2, cut=cut).steps, *good) for cut in (1, 3, WIDTH - 1)]


def _sliced(found: Found, k: int) -> Found:
    return sorted(found, reverse=True)[:k]


def _nan_first(found: Found, k: int) -> Found:
    """As torch sorts: nan before everything else."""
    return sorted(found, key=lambda pair: (not math.isnan(pair[0]), -pair[0]))[:k]


EXERCISE = Exercise(
    NAME,
    _search(),
    groups=[
        Group("vectors of length 1", 0.5, "the k largest cosines, best first, and their rows", _units),
        Group("documents of other lengths", 0.5, "divide by the length of each document; the inputs stay", _documents),
        Group("queries of other lengths", 0.25, "divide by the length of the query", _queries),
        Group("opposite directions", 0.5, "a document that points away comes last, with a negative score", _opposite),
        Group("one and all", 0.25, "k = 1 and k = N are allowed", _ends),
        Group("a document of zeros", 0.25, "a vector of zeros scores 0", _zero_document),
        Group("a query of zeros", 0.25, "a vector of zeros scores 0", _zero_query),
        Group("bad k", 0.25, "k outside of 1 to N raises ValueError", _bad_k),
        Group("other widths", 0.25, "a query of another width than the documents raises ValueError", _widths),
    ],
    mistakes=[
        Mistake("dot products", "divide by both lengths", _search(_dot)),
        Mistake(
            "length of the document forgotten",
            "divide by the length of each document: a long vector is no better match",
            _search(lambda q, d: _dot(q, d) / _length(q) if any(q) else 0.0),
        ),
        Mistake(
            "length of the query forgotten",
            "divide by the length of the query too: it does not change the order, but the scores",
            _search(lambda q, d: _dot(q, d) / _length(d) if any(d) else 0.0),
        ),
        Mistake(
            "absolute", "opposite directions do not match: keep the sign", _search(lambda q, d: abs(_cosine(q, d)))
        ),
        Mistake(
            "ordered by size",
            "opposite directions do not match: order by the score, not by its size",
            _search(pick=lambda found, k: sorted(found, key=lambda pair: -abs(pair[0]))[:k]),
        ),
        Mistake("worst first", "best first", _search(pick=lambda found, k: sorted(found)[:k])),
        Mistake(
            "order of the rows",
            "the k results come in the order of their scores, not of their rows",
            _search(pick=lambda found, k: sorted(_sliced(found, k), key=lambda pair: pair[1])),
        ),
        Mistake("all documents", "only k of them", _search(pick=lambda found, k: _sliced(found, len(found)))),
        Mistake("swapped", "scores first, indices second", _search(swapped=True)),
        Mistake(
            "distances",
            "the scores are cosines, not distances",
            _search(pick=lambda f, k: [(1 - s, i) for s, i in _sliced(f, k)]),
        ),
        Mistake(
            "zero vectors",
            "a vector of zeros scores 0: do not divide by its length",
            [
                _search(zero=lambda query, i: math.nan),
                _search(zero=lambda query, i: math.nan, pick=_nan_first),
                _search(zero=lambda query, i: math.nan if query else 0.0),
                _search(zero=lambda query, i: 0.0 if query else math.nan, pick=_nan_first),
                _search(zero=lambda query, i: -math.inf),
                _search(zero=lambda query, i: -1.0),
                _search(zero=lambda query, i: _refuse(i)),
                _search(zero=lambda query, i: 0.0 if query else -1.0),
            ],
        ),
        Mistake("documents changed", "the documents were changed in place", _search(spoils=True)),
        Mistake(
            "k unchecked",
            "k outside of 1 to N has to raise ValueError, no other error and no shorter list",
            [
                _search(bad_k=lambda k, n: False, pick=lambda f, k: _sliced(f, k)),
                _search(bad_k=lambda k, n: k < 1),
                _search(bad_k=lambda k, n: k > n),
                _search(bad_k=lambda k, n: k < 0 or k > n),
                _search(bad_k=lambda k, n: k < 1, other_error=RuntimeError),
                _search(bad_k=lambda k, n: k < 1, other_error=IndexError),
                _raw(_unguarded),
            ],
        ),
        Mistake(
            "widths unchecked",
            "a query of another width has to raise ValueError: broadcasting hides it, or torch raises another error",
            [
                _k_checked(_unguarded),
                _k_checked(_by_product),
                _search(wide=lambda q, d: False),
                _search(wide=lambda q, d: q not in (1, d)),
                _search(wide_error=RuntimeError),
            ],
        ),
    ],
    compare=by_step(_same),
)
