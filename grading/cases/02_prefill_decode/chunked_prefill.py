"""Held-out cases of chunked_prefill. The model and its caches live in the grader, which counts the calls.

How the tokens are shared out among the calls is open, so a world tells only what the contract fixes: the number of
calls, how many were too long, and what each cache holds at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, observe, unchanged
from kvgrade.inside.wire import Callback, Handle

VOCAB, WIDTH = 17, 8
MOST = 2048  # tokens that a cache takes; it bounds what an answer can make the grader compute
USED, SPARE = Handle(1), Handle(2)  # the cache of a case, and a second one for a call after an error


class Model:
    """The other side: a causal model of one attention layer. A cache is the list of its tokens; handles stand for it."""

    def __init__(self, seed: int, chunk_size: int, held: Sequence[int]) -> None:
        rng = np.random.default_rng(seed)
        self.table = rng.normal(size=(VOCAB, WIDTH))
        self.head = rng.normal(size=(WIDTH, VOCAB)) / math.sqrt(WIDTH)
        self.chunk_size, self.calls, self.too_long = chunk_size, 0, 0
        self.caches: dict[Any, list[int]] = {USED: list(held), SPARE: []}
        self.functions: Mapping[str, Callable[..., Any]] = {"model": self.model}

    def model(self, ids: Any, cache: Any) -> Any:
        """Logits of the new ids. What comes from an answer may be anything: ValueError for what can't be used."""
        if not isinstance(cache, Handle) or cache not in self.caches:
            raise ValueError("the second argument of the model is the cache, handed on as it came")
        if not isinstance(ids, np.ndarray | torch.Tensor):
            raise ValueError("the model takes a 1-D LongTensor of ids")
        new = np.asarray(ids)
        if new.ndim != 1 or new.dtype != np.int64 or ((new < 0) | (new >= VOCAB)).any():
            raise ValueError(f"the model takes a 1-D LongTensor of ids from 0 to {VOCAB - 1}")
        self.calls += 1
        self.too_long += len(new) > self.chunk_size
        held = self.caches[cache]
        if len(held) + len(new) > MOST:  # far beyond any case: no error, which an answer could pass on as its own
            return torch.zeros(1, VOCAB)
        held.extend(new.tolist())
        return torch.from_numpy(self.logits(held, len(new)))

    def logits(self, tokens: Sequence[int], n_new: int) -> np.ndarray:
        """(n_new, VOCAB): of the last n_new of these tokens, all of which count, and their order too."""
        positions = np.arange(len(tokens))
        x = self.table[list(tokens)] + np.sin(np.outer(positions, np.arange(1, WIDTH + 1)) / 5)
        rows = positions[len(tokens) - n_new :]
        scores = np.where(positions <= rows[:, None], x[rows] @ x.T / math.sqrt(WIDTH), -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-1e9))
        return (x[rows] + weights / weights.sum(axis=1, keepdims=True) @ x) @ self.head

    def observe(self) -> Any:
        return {"calls": self.calls, "too_long": self.too_long, "cache": self.caches[USED]}


Starts = Callable[[int, int], Sequence[tuple[int, int]]]


def _pieces(n: int, size: int) -> list[tuple[int, int]]:
    return [(i * size, min(n, (i + 1) * size)) for i in range(math.ceil(n / size))]


def _raise(error: type[Exception]) -> Any:
    raise error


def _prefill(
    pieces: Starts = _pieces,
    row: Callable[[Any], Any] = lambda logits: logits[-1],
    pad: bool = False,
    empty: Callable[[], Any] | None = lambda: _raise(ValueError),
    zero: Callable[[], Any] | None = lambda: _raise(ValueError),
    negative: Callable[[], Any] | None = lambda: _raise(ValueError),
    after: Callable[[Any], Any] = lambda ids: None,
    last_again: bool = False,
    skips_empty: bool = True,
) -> dict[str, Any]:
    """Prefill in pieces, with the ways to get it wrong as arguments.

    pieces: (begin, end) of each call. empty, zero, negative: what no ids and a chunk_size of 0 or below give; None goes
    on with one piece. skips_empty: logits of a call without tokens are not taken for the last ones.
    """

    def chunked_prefill(model: Any, ids: Any, chunk_size: int, cache: Any) -> Any:
        if len(ids) == 0 and empty:
            return empty()
        bad = {True: zero, False: negative}[chunk_size == 0] if chunk_size < 1 else None
        if bad:
            return bad()
        size = chunk_size if chunk_size >= 1 else max(1, len(ids))
        logits = None
        for begin, end in pieces(len(ids), size):
            part = ids[begin:end]
            if pad and len(part) < size:
                part = torch.cat([part, torch.zeros(size - len(part), dtype=torch.int64)])
            found = model(part, cache)
            logits = found if len(found) or not skips_empty else logits
        if last_again:
            logits = model(ids[len(ids) - 1 :], cache)
        if logits is None:
            raise UnboundLocalError
        after(ids)
        return row(logits)

    return {"chunked_prefill": chunked_prefill}


def _unguarded_size() -> list[dict[str, Any]]:
    """Ways to go on with a chunk_size below 1: `range` refuses 0 by itself, torch refuses both in its own way."""
    raises: list[Callable[[], Any] | None] = [
        None,
        lambda: _raise(UnboundLocalError),
        lambda: _raise(IndexError),
        lambda: _raise(TypeError),
        lambda: _raise(RuntimeError),
        lambda: _raise(ZeroDivisionError),
    ]
    zeros = [lambda: _raise(ValueError), *raises]
    return [_prefill(zero=z, negative=n) for z in zeros for n in raises]


def _chunks_by_number(n: int, number: int) -> list[tuple[int, int]]:
    """What torch.chunk(ids, number) gives."""
    return _pieces(n, math.ceil(n / number))


def _empty_at_the_end(n: int, size: int) -> list[tuple[int, int]]:
    """What range(0, n + 1, size) gives."""
    return [(begin, min(n, begin + size)) for begin in range(0, n + 1, size)]


def _prompt(rng: Generator, n: int) -> torch.Tensor:
    """Ids without 0, so that padding by 0 shows, and with no two in a row alike."""
    steps = rng.integers(1, VOCAB - 2, n)
    return torch.from_numpy(1 + np.cumsum(steps) % (VOCAB - 1))


def _case(rng: Generator, n: int, chunk_size: int, held: int = 0, watched: bool = False) -> Case:
    seed, tokens = int(rng.integers(1 << 30)), _prompt(rng, held).tolist()
    step = call("chunked_prefill", Callback("model"), _prompt(rng, n), chunk_size, USED)
    steps = [step, unchanged(0)] if watched else [step]
    return Case(*steps, observe(), world=lambda: Model(seed, chunk_size, tokens))


def _bad(rng: Generator, n: int, chunk_size: int, good_size: int) -> Case:
    """A call that has to raise, and a good one with a cache of its own: one token, which most mistakes get right."""
    seed = int(rng.integers(1 << 30))
    bad = call("chunked_prefill", Callback("model"), _prompt(rng, n), chunk_size, USED)
    good = call("chunked_prefill", Callback("model"), _prompt(rng, 1), good_size, SPARE)
    return Case(bad, good, world=lambda: Model(seed, good_size, []))


def _bad_sizes(rng: Generator) -> list[Case]:
    return [_bad(rng, n, size, 1) for n, size in ((5, 0), (5, -1), (4, -int(rng.integers(2, 9))))]


EXERCISE = Exercise(
    "chunked_prefill",
    _prefill(),
    groups=[
        Group(
            "one chunk is enough",
            0.5,
            "fewer tokens than chunk_size: one call with just these tokens",
            lambda rng: [_case(rng, n, size) for n, size in ((2, 3), (7, 8), (11, 64))],
        ),
        Group(
            "full chunks",
            0.75,
            "n is a multiple of chunk_size: n / chunk_size calls, each token once and in order",
            lambda rng: [_case(rng, n, size) for n, size in ((4, 2), (12, 3), (10, 5), (6, 6), (64, 16))],
        ),
        Group(
            "a short last chunk",
            0.75,
            "what is left after the full chunks is one shorter call",
            lambda rng: [_case(rng, n, size) for n, size in ((5, 3), (11, 4), (23, 5), (100, 32))],
        ),
        Group(
            "token by token",
            0.5,
            "chunk_size 1 takes one call for each token",
            lambda rng: [_case(rng, n, 1) for n in (2, 5, 9)],
        ),
        Group(
            "a cache that holds something",
            0.5,
            "the cache may already hold a prefix: it stays in front, and the prompt goes on where it ends",
            lambda rng: [_case(rng, n, size, held) for n, size, held in ((4, 2, 3), (9, 3, 7), (16, 4, 20))],
        ),
        Group("inputs", 0.25, "ids have to stay as they are", lambda rng: [_case(rng, 1, 3, watched=True)]),
        Group("no ids", 0.25, "no ids raise ValueError", lambda rng: [_bad(rng, 0, size, 3) for size in (1, 4)]),
        Group("a chunk_size below 1", 0.5, "a chunk_size of 0 or less raises ValueError", _bad_sizes),
    ],
    mistakes=[
        Mistake("one call", "no call may get more than chunk_size tokens", _prefill(lambda n, size: [(0, n)])),
        Mistake(
            "short chunk dropped",
            "the tokens after the last full chunk are missing",
            [
                _prefill(lambda n, size: _pieces(n - n % size, size)),
                _prefill(lambda n, size: _pieces(n, size)[: max(1, n // size)]),
            ],
        ),
        Mistake(
            "padded", "the last chunk is shorter; padding fills the cache with tokens of no text", _prefill(pad=True)
        ),
        Mistake(
            "chunk_size as a number of chunks",
            "chunk_size is the size of a chunk, not the number of chunks",
            _prefill(_chunks_by_number),
        ),
        Mistake(
            "old tokens sent again",
            "the cache holds the earlier chunks: a call gets new tokens only",
            _prefill(lambda n, size: [(0, end) for _, end in _pieces(n, size)]),
        ),
        Mistake(
            "chunks overlap",
            "each token goes to the model once: the next chunk begins where the last one ended",
            [
                _prefill(lambda n, size: [(max(0, begin - 1), end) for begin, end in _pieces(n, size)]),
                _prefill(lambda n, size: [(begin, min(n, end + 1)) for begin, end in _pieces(n, size)]),
            ],
        ),
        Mistake(
            "chunks too long by one",
            "a chunk ends before begin + chunk_size",
            _prefill(lambda n, size: _pieces(n, size + 1)),
        ),
        Mistake(
            "last token apart",
            "the last token is part of the last chunk, not a call of its own",
            _prefill(lambda n, size: [*_pieces(n - 1, size), (n - 1, n)]),
        ),
        Mistake(
            "last token again",
            "the last chunk's logits hold the last token's already: feeding it again puts it into the cache twice",
            _prefill(last_again=True),
        ),
        Mistake(
            "an empty call at the end",
            "when chunk_size divides n there is nothing left for another call",
            [_prefill(_empty_at_the_end, skips_empty=skips) for skips in (False, True)],
        ),
        Mistake(
            "chunks in reverse order",
            "chunks go in order: a token can only see what is in the cache before it",
            _prefill(lambda n, size: _pieces(n, size)[::-1]),
        ),
        Mistake(
            "one token per call",
            "a chunk goes to the model in one call, not token by token",
            _prefill(lambda n, size: _pieces(n, 1)),
        ),
        Mistake(
            "first row of the last chunk",
            "the last token's logits are the last row of the last call",
            _prefill(row=lambda logits: logits[0]),
        ),
        Mistake(
            "all rows of the last chunk",
            "only the last token's logits are asked for: (vocab,)",
            [_prefill(row=lambda logits: logits), _prefill(row=lambda logits: logits[-1:])],
        ),
        Mistake("ids changed", "ids have to stay as they are", _prefill(after=lambda ids: ids.zero_())),
        Mistake(
            "no ids pass",
            "without ids there is no last token: raise ValueError",
            [
                _prefill(empty=None),
                _prefill(empty=lambda: _raise(IndexError)),
                _prefill(empty=lambda: _raise(TypeError)),
                _prefill(empty=lambda: _raise(RuntimeError)),
                _prefill(empty=lambda: _raise(ZeroDivisionError)),
                _prefill(empty=lambda: np.zeros(0)),
                _prefill(empty=lambda: np.zeros(VOCAB)),
                _prefill(empty=lambda: None),
            ],
        ),
        Mistake("chunk_size unchecked", "a chunk_size below 1 has to raise ValueError", _unguarded_size()),
    ],
)
