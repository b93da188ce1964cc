"""Five ways to search, from words to a trained encoder: each gives every passage a score for a query."""

import re
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

import torch

from kvlab import models
from kvlab.embeddings.retrieval import Result, RetrievalSet, judge
from kvlab.embeddings.search import cosines

Encoder = Callable[[Sequence[str]], torch.Tensor]


class Method(Protocol):
    """`index` reads the passages once; `scores` gives each of them a number for one query, (N,)."""

    def index(self, texts: Sequence[str]) -> None: ...

    def scores(self, text: str) -> torch.Tensor: ...


class Dense:
    """Search by the cosine of vectors. `vectors` are those of the passages, (N, d)."""

    def __init__(self, encode: Encoder) -> None:
        self.encode = encode
        self.vectors = torch.empty(0, 0)

    def index(self, texts: Sequence[str]) -> None:
        self.vectors = self.encode(texts)

    def scores(self, text: str) -> torch.Tensor:
        return cosines(self.encode([text])[0], self.vectors)


class Bm25:
    """Search by shared words: rare words count more, repeated ones less and less (Robertson and Zaragoza, 2009).

    The library is rank-bm25, with its usual k1 = 1.5 and b = 0.75. A word is a run of letters or digits in lower case.
    """

    def index(self, texts: Sequence[str]) -> None:
        try:
            from rank_bm25 import BM25Okapi
        except ImportError:
            raise ValueError("BM25 needs the package rank-bm25: run `pip install rank-bm25`") from None
        if not any(map(words, texts)):
            raise ValueError("BM25 needs at least one passage with a word in it")
        self._index = BM25Okapi([words(text) for text in texts])

    def scores(self, text: str) -> torch.Tensor:
        return torch.from_numpy(self._index.get_scores(words(text))).float()


def words(text: str) -> list[str]:
    """The words of a text in lower case, without signs."""
    return re.findall(r"\w+", unicodedata.normalize("NFC", text).lower())  # a letter and its accent as one sign


def _smollm2(pool: str) -> Method:
    from kvlab import load
    from kvlab.embeddings.decoder import hidden_states, token_rows

    model = load("smollm2", "cpu")
    if pool == "rows":
        return Dense(lambda texts: token_rows(model, texts))
    return Dense(lambda texts: hidden_states(model, texts, pooling=pool))


def _minilm() -> Method:
    from kvlab.embeddings.minilm import MiniLM

    return Dense(MiniLM.load().encode)


@dataclass(frozen=True)
class Entry:
    """A method of the list: what it is, what it needs on this machine, and how it is made."""

    title: str
    needs: str
    make: Callable[[], Method]


METHODS = {
    "bm25": Entry("BM25: shared words", "rank_bm25", Bm25),
    "rows": Entry("SmolLM2: mean of its token rows", "smollm2", lambda: _smollm2("rows")),
    "last_hidden": Entry("SmolLM2: hidden state of the last token", "smollm2", lambda: _smollm2("last")),
    "mean_hidden": Entry("SmolLM2: mean of its hidden states", "smollm2", lambda: _smollm2("mean")),
    "minilm": Entry("MiniLM: a text encoder", "minilm", _minilm),
}


def entry(name: str) -> Entry:
    """One method of the list. Raises ValueError for another name."""
    if name not in METHODS:
        raise ValueError(f"there is no method '{name}': choose one of {', '.join(METHODS)}")
    return METHODS[name]


def is_available(name: str) -> bool:
    """Whether what the method needs is on this machine; else only its recorded result is to be had."""
    needs = entry(name).needs
    return models.is_here(needs) if needs in models.ADDABLE else find_spec(needs) is not None


def method(name: str) -> Method:
    """A method, ready for `run`. Raises ValueError, with the command to run, when its model or package is missing."""
    return entry(name).make()


def run(name: str, searcher: Method, data: RetrievalSet) -> tuple[Result, torch.Tensor]:
    """Index the passages, ask every query and time each one; also the table of scores, (queries, passages)."""
    searcher.index([passage.text for passage in data.passages])
    searcher.scores(data.queries[0].text)  # a first call pays for things that no later one does
    rows, times = [], []
    for query in data.queries:
        start = time.perf_counter()
        rows.append(searcher.scores(query.text))
        times.append(1000 * (time.perf_counter() - start))
    scores = torch.stack(rows)
    return judge(name, scores, data, times), scores
