"""The course's retrieval set, and how well a table of scores does on it.

Three kinds of query search all passages: paraphrase, homonym, distractor. They give recall and the mean reciprocal
rank. Two kinds ask which of two twins comes first: negation and word order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import torch

from kvlab.embeddings.search import recall_at_k
from kvlab.jsonfile import read_json
from kvlab.paths import data_dir

SEARCH = ("paraphrase", "homonym", "distractor")
TWINS = ("negation", "word order")
KINDS = (*SEARCH, *TWINS)
# Two scores this near are a tie. The vectors recorded in float16 move a cosine by less than a tenth of it.
TIE = 1e-4


@dataclass(frozen=True)
class Passage:
    id: str
    text: str


@dataclass(frozen=True)
class Query:
    """`relevant`: ids of the passages that answer it. `rival`: id of the one that is there to mislead, or None."""

    id: str
    kind: str
    text: str
    relevant: tuple[str, ...]
    rival: str | None


@dataclass(frozen=True)
class RetrievalSet:
    passages: tuple[Passage, ...]
    queries: tuple[Query, ...]

    def __post_init__(self) -> None:
        known = {passage.id for passage in self.passages}
        if len(known) != len(self.passages) or len({query.id for query in self.queries}) != len(self.queries):
            raise ValueError("two passages or two queries have the same id")
        for query in self.queries:
            if query.kind not in KINDS:
                raise ValueError(f"query {query.id} is of kind '{query.kind}': choose one of {', '.join(KINDS)}")
            lost = {*query.relevant, *filter(None, [query.rival])} - known
            if lost or not query.relevant:
                raise ValueError(f"query {query.id} needs relevant passages that exist, got {query.relevant}")
            if query.rival is None and query.kind in TWINS:
                raise ValueError(f"query {query.id} is of kind '{query.kind}' and names no twin as its rival")

    @cached_property
    def position(self) -> dict[str, int]:
        """The row of each passage."""
        return {passage.id: i for i, passage in enumerate(self.passages)}


def retrieval_set(path: Path | None = None) -> RetrievalSet:
    """The passages and queries of `data/retrieval.json`, or of another file of the same form. ValueError if damaged."""
    path = data_dir() / "retrieval.json" if path is None else path
    content = read_json(path, dict)
    try:
        passages = tuple(Passage(**entry) for entry in content["passages"])
        queries = tuple(Query(**entry | {"relevant": tuple(entry["relevant"])}) for entry in content["queries"])
        return RetrievalSet(passages, queries)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}): restore it from the repository") from error


def equal_endings(data: RetrievalSet) -> RetrievalSet:
    """The same set, but a query that ends without a sign gets the full stop that every passage ends in.

    The hidden state of a last token depends much on which token that is, so this is the fairer question to ask.
    """
    ended = (q if q.text.endswith((".", "!", "?")) else replace(q, text=q.text + ".") for q in data.queries)
    return replace(data, queries=tuple(ended))


@dataclass(frozen=True)
class Verdict:
    """How one query went. `first_is_right` compares the relevant passage with the rival: None is a tie, or no rival."""

    query: Query
    ranked: tuple[str, ...]
    first_is_right: bool | None

    @property
    def rank(self) -> int:
        """The place of the first relevant passage, from 1."""
        return next(i for i, passage in enumerate(self.ranked, 1) if passage in self.query.relevant)


@dataclass(frozen=True)
class Result:
    """One method on the whole set. `query_ms`: milliseconds that each query took, empty when nothing was timed;
    `source`: where the scores come from."""

    method: str
    verdicts: tuple[Verdict, ...]
    query_ms: tuple[float, ...] = ()
    source: str = "run here"

    def of(self, *kinds: str) -> list[Verdict]:
        """The verdicts of some kinds of query; ValueError for a kind that the set does not hold."""
        found = [v for v in self.verdicts if v.query.kind in kinds]
        if not found:
            raise ValueError(f"there is no query of kind {', '.join(map(repr, kinds))}: known are {', '.join(KINDS)}")
        return found

    def recall(self, k: int, *kinds: str) -> float:
        """recall@k over the queries of these kinds; without any, over the three that search."""
        chosen = self.of(*(kinds or SEARCH))
        return recall_at_k([v.ranked for v in chosen], [v.query.relevant for v in chosen], k)

    def mrr(self, *kinds: str) -> float:
        """The mean of 1 / rank of the first relevant passage."""
        chosen = self.of(*(kinds or SEARCH))
        return sum(1 / v.rank for v in chosen) / len(chosen)

    def twins(self, *kinds: str) -> tuple[int, int, int]:
        """In how many queries the right twin comes first, how many are ties, and in how many the wrong one does."""
        answers = [v.first_is_right for v in self.of(*(kinds or TWINS)) if v.query.rival is not None]
        return answers.count(True), answers.count(None), answers.count(False)

    @property
    def latency_ms(self) -> float | None:
        """The median time of a query."""
        return median(self.query_ms) if self.query_ms else None

    def row(self) -> dict[str, Any]:
        """The figures as one row of a table; `twins` are (right, tie, wrong)."""
        by_kind = {f"recall@1 {kind}": self.recall(1, kind) for kind in SEARCH}
        twins = {f"twins {kind}": self.twins(kind) for kind in TWINS}
        whole = {"method": self.method, "recall@1": self.recall(1), "recall@5": self.recall(5), "mrr": self.mrr()}
        return whole | by_kind | twins | {"ms a query": self.latency_ms, "source": self.source}


def judge(
    method: str, scores: torch.Tensor, data: RetrievalSet, query_ms: Sequence[float] = (), source: str = "run here"
) -> Result:
    """What a table of scores is worth: (queries, passages), a larger score for a better passage.

    Among equal scores the passage that comes first in the set comes first.
    """
    shape = len(data.queries), len(data.passages)
    if tuple(scores.shape) != shape:
        raise ValueError(f"scores must be (queries, passages) = {shape}, got {tuple(scores.shape)}")
    if not bool(torch.isfinite(scores).all()):
        raise ValueError(f"the scores of '{method}' hold values that are no finite numbers")
    verdicts = []
    for query, row in zip(data.queries, scores, strict=True):
        order = torch.argsort(row, descending=True, stable=True).tolist()
        ahead = None
        if query.rival is not None:
            gap = float(max(row[data.position[i]] for i in query.relevant) - row[data.position[query.rival]])
            ahead = None if abs(gap) <= TIE else gap > 0
        verdicts.append(Verdict(query, tuple(data.passages[i].id for i in order), ahead))
    return Result(method, tuple(verdicts), tuple(query_ms), source)
