"""Drafts without a model: a table of what followed which tokens, and the prompt itself. A proposal costs microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import torch

from kvlab import sampling
from kvlab.config import ModelConfig
from kvlab.model import check_id
from kvlab.speculative import rule
from kvlab.speculative.drafts import Proposal, check_vocabulary, is_greedy
from kvlab.validate import whole

Counts = dict[int, int]


class NGramTable:
    """How often each token followed the last one, two, ... n - 1 tokens of some text; `n` is the longest gram."""

    def __init__(self, n: int, vocab_size: int) -> None:
        self.n, self.vocab_size = whole("n", n, least=2), whole("vocab_size", vocab_size, least=1)
        self._counts: dict[tuple[int, ...], Counts] = {}
        self._best: dict[tuple[int, ...], int] = {}

    @classmethod
    def from_documents(cls, documents: Iterable[Sequence[int]], n: int, vocab_size: int) -> NGramTable:
        """Count the grams of documents of token ids; no gram goes across two documents."""
        table = cls(n, vocab_size)
        for ids in documents:
            table.add(ids)
        return table

    def add(self, ids: Sequence[int]) -> None:
        """Count one more document."""
        if len(ids):
            check_id(min(ids), self.vocab_size)
            check_id(max(ids), self.vocab_size)
        for i in range(1, len(ids)):
            for size in range(1, min(self.n, i + 1)):
                key = tuple(ids[i - size : i])
                counts = self._counts.setdefault(key, {})
                token = ids[i]
                counts[token] = counts.get(token, 0) + 1
                best = self._best.setdefault(key, token)
                if counts[token] > counts[best]:
                    self._best[key] = token

    def __len__(self) -> int:
        """Contexts that the table knows."""
        return len(self._counts)

    def context(self, ids: Sequence[int]) -> tuple[int, ...] | None:
        """The longest end of `ids`, up to n - 1 tokens, that the table knows; None when it knows none."""
        for size in range(min(self.n - 1, len(ids)), 0, -1):
            key = tuple(ids[-size:])
            if key in self._counts:
                return key
        return None

    def best(self, ids: Sequence[int]) -> int | None:
        """The token that followed most often, of equals the first that did so; None when no context is known."""
        key = self.context(ids)
        return None if key is None else self._best[key]

    def counts(self, ids: Sequence[int]) -> Counts:
        """{token: times it followed} of the longest known context; empty when there is none."""
        key = self.context(ids)
        return {} if key is None else dict(self._counts[key])


class NGramDraft:
    """Propose what followed most often (greedy), or draw from the counts under the target's own settings."""

    def __init__(self, table: NGramTable) -> None:
        self.table, self.passes = table, 0

    def begin(self, config: ModelConfig, max_len: int) -> None:
        check_vocabulary(self.table.vocab_size, config.vocab_size)
        self.passes = 0

    def propose(
        self,
        context: Sequence[int],
        k: int,
        settings: sampling.SamplingSettings,
        n_prompt: int,
        generator: torch.Generator,
    ) -> Proposal:
        text, tokens, told = list(context), list[int](), list[torch.Tensor]()
        while len(tokens) < k:
            if is_greedy(settings):
                best = self.table.best(text)
                if best is None:
                    break
                token = best
            else:
                counts = self.table.counts(text)
                if not counts:
                    break
                logits = torch.full((self.table.vocab_size,), -torch.inf, dtype=torch.float64)
                logits[list(counts)] = torch.tensor(list(counts.values()), dtype=torch.float64).log()
                try:
                    drawn_from, q = rule.draft_distribution(logits, settings, text, n_prompt)
                except ValueError:  # a processor forbids all that the table knows: nothing more is proposed
                    break
                token = sampling.sample(drawn_from, generator)
                told.append(q)
            tokens.append(token)
            text.append(token)
        return Proposal(tokens, torch.stack(told) if told else None)


class PromptLookup:
    """Find the last few tokens earlier in the text and propose what followed there.

    Up to `n` tokens are looked for, the longest match first; of several places the latest. Good where answers repeat
    the prompt: summaries, edits of code (Saxena, 2023, "prompt lookup decoding"). A proposal is certain, so its q is 1.
    """

    def __init__(self, n: int = 3) -> None:
        self.n, self.passes = whole("n", n, least=1), 0
        self._vocab_size = 0
        self._seen: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}  # gram: the place after its latest occurrence

    def begin(self, config: ModelConfig, max_len: int) -> None:
        self._vocab_size, self.passes = config.vocab_size, 0
        self._seen, self._after = [], {}

    def propose(
        self,
        context: Sequence[int],
        k: int,
        settings: sampling.SamplingSettings,
        n_prompt: int,
        generator: torch.Generator,
    ) -> Proposal:
        if self._seen != list(context[: len(self._seen)]):
            self._seen, self._after = [], {}
        for token in chain(context[len(self._seen) :]):
            # Grams that end before this token; the end of the text itself is not in the index, it is looked for.
            place = len(self._seen)
            for size in range(1, min(self.n, place) + 1):
                self._after[tuple(self._seen[place - size : place])] = place
            self._seen.append(token)
        tokens: list[int] = []
        for size in range(min(self.n, len(self._seen) - 1), 0, -1):
            place = self._after.get(tuple(self._seen[-size:]), -1)
            if place >= 0:
                tokens = self._seen[place : place + k]
                break
        if is_greedy(settings) or not tokens:
            return Proposal(tokens, None)
        return Proposal(tokens, torch.nn.functional.one_hot(torch.tensor(tokens), self._vocab_size).double())
