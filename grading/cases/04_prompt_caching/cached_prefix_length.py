"""Held-out cases of cached_prefix_length. The oracle is written apart from the unit's solution and from kvlab.

Tokens of the common beginning, of the rest of the stored text and of the rest of the prompt are drawn from three ranges,
so that nothing agrees after the first difference unless a group wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, Step, call, unchanged

Ids = list[int]
Length = Callable[[Ids, Ids, int], int]


def _longest(stored: Ids, prompt: Ids, block: int) -> int:
    """Tries every length, the longest first."""
    for n in range(len(prompt) - 1, 0, -1):
        if n % block == 0 and len(stored) >= n and stored[:n] == prompt[:n]:
            return n
    return 0


def _prefix(
    length: Length = _longest,
    refuses: Callable[[int], bool] = lambda block: block < 1,
    consumes: bool = False,
) -> dict[str, Any]:
    """The length, with the ways to get it wrong as arguments."""

    def cached_prefix_length(stored: Ids, prompt: Ids, block: int) -> int:
        if refuses(block):
            raise ValueError
        n = length(stored, prompt, block)
        if consumes:
            stored.clear()
            prompt.clear()
        return n

    return {"cached_prefix_length": cached_prefix_length}


def _common(stored: Ids, prompt: Ids) -> int:
    n = 0
    while n < min(len(stored), len(prompt)) and stored[n] == prompt[n]:
        n += 1
    return n


def _down(n: int, block: int) -> int:
    return n // block * block


def _up(n: int, block: int) -> int:
    return -(-n // block) * block


def _left(stored: Ids, prompt: Ids) -> int:
    """What agrees and leaves a token of the prompt."""
    return max(0, min(_common(stored, prompt), len(prompt) - 1))


def _equal_places(stored: Ids, prompt: Ids) -> int:
    return sum(a == b for a, b in zip(stored, prompt, strict=False))


def _equal_blocks(stored: Ids, prompt: Ids, block: int) -> int:
    """Tokens in blocks that agree with the block at the same place, wherever that is."""
    whole = min(len(stored), max(len(prompt) - 1, 0)) // block
    return block * sum(stored[i * block :][:block] == prompt[i * block :][:block] for i in range(whole))


def _whole_text(stored: Ids, prompt: Ids, block: int) -> int:
    """Reuses the stored text as a whole or not at all."""
    n = min(len(stored), len(prompt) - 1)
    return _down(n, block) if n >= 0 and stored[:n] == prompt[:n] and n in (len(stored), len(prompt) - 1) else 0


def _ids(rng: Generator, n: int, kind: int) -> Ids:
    """n tokens of one of the three ranges: 0 the common beginning, 1 the stored rest, 2 the rest of the prompt."""
    return [int(x) for x in rng.integers(100 * kind, 100 * kind + 90, n)]


def _case(rng: Generator, common: int, stored_rest: int, prompt_rest: int, block: int) -> Case:
    start = _ids(rng, common, 0)
    stored, prompt = start + _ids(rng, stored_rest, 1), start + _ids(rng, prompt_rest, 2)
    return Case(call("cached_prefix_length", stored, prompt, int(block)))


def _blocks(rng: Generator, n: int = 3) -> list[int]:
    return [int(b) for b in rng.integers(3, 17, n)]


def _rest(rng: Generator, block: int) -> int:
    """A rest longer than a block: no rule about the end of a text can matter."""
    return block + int(rng.integers(2, 30))


def _inside(rng: Generator) -> list[Case]:
    """Apart near the beginning of a block, near its end, anywhere inside it."""
    cases = []
    for b, n in zip(_blocks(rng), (1, 3, 12), strict=True):
        inside = {1: 1, 3: b - 1}.get(n, int(rng.integers(1, b)))
        cases.append(_case(rng, b * n + inside, _rest(rng, b), _rest(rng, b), b))
    return cases


def _edge(rng: Generator) -> list[Case]:
    """Apart just where a block begins; blocks of one token, too."""
    sizes = [*zip(_blocks(rng), (1, 4, 9), strict=True), (1, int(rng.integers(5, 40)))]
    return [_case(rng, b * n, _rest(rng, b), _rest(rng, b), b) for b, n in sizes]


def _again(rng: Generator) -> list[Case]:
    """Apart at a block's edge for a few tokens, then the same tokens at the same places."""
    cases = []
    for b, n in zip(_blocks(rng), (1, 2, 5), strict=True):
        start, more = _ids(rng, b * n, 0), _ids(rng, 3 * b, 0)
        stored, prompt = start + _ids(rng, b, 1) + more, start + _ids(rng, b, 2) + more + _ids(rng, b, 2)
        cases.append(Case(call("cached_prefix_length", stored, prompt, b)))
    return cases


def _nothing(rng: Generator) -> list[Case]:
    """No common token, less than a block of them, nothing stored."""
    b = int(rng.integers(5, 17))
    sizes = ((0, _rest(rng, b)), (b - 2, _rest(rng, b)), (0, 0))
    return [_case(rng, common, stored_rest, _rest(rng, b), b) for common, stored_rest in sizes]


def _beginning(rng: Generator) -> list[Case]:
    """The stored text is the beginning of the prompt, as in a conversation; whole blocks."""
    cases = [_case(rng, b * n, 0, _rest(rng, b), b) for b, n in zip(_blocks(rng), (1, 3, 8), strict=True)]
    return [Case(*case.steps, unchanged(0)) for case in cases[:1]] + cases[1:]


def _all_stored(rng: Generator) -> list[Case]:
    """Every token of the prompt is stored, in whole blocks; the stored text ends there or goes on."""
    sizes = [*zip(_blocks(rng, 2), (1, 4), strict=True), (1, int(rng.integers(5, 40)))]
    return [_case(rng, b * n, rest, 0, b) for b, n in sizes for rest in (0, int(rng.integers(1, 30)))]


def _good(rng: Generator) -> tuple[Step, ...]:
    """Valid input beside bad one. Hardly a mistake shows on it."""
    return _case(rng, 5, 4, 0, 2).steps


def _empty(rng: Generator) -> list[Case]:
    good = _good(rng)
    return [Case(*_case(rng, 0, n, 0, int(rng.integers(1, 9))).steps, *good) for n in (0, 12)]


def _bad_blocks(rng: Generator) -> list[Case]:
    good = _good(rng)
    return [Case(*_case(rng, 7, 5, 6, b).steps, *good) for b in (0, -1, -int(rng.integers(2, 9)))]


EXERCISE = Exercise(
    "cached_prefix_length",
    _prefix(),
    groups=[
        Group("apart inside a block", 0.5, "what agrees is rounded down to whole blocks", _inside),
        Group("apart at a block's edge", 0.5, "every whole block that agrees is reused", _edge),
        Group("agree again later", 0.5, "only the common beginning counts", _again),
        Group("nothing to reuse", 0.25, "less than a block in common gives 0", _nothing),
        Group("the stored text goes on", 0.25, "all of the stored text may be reused; the lists stay", _beginning),
        Group("the whole prompt is stored", 0.5, "one token of the prompt has to be computed", _all_stored),
        Group("an empty prompt", 0.25, "an empty prompt gives 0", _empty),
        Group("bad blocks", 0.25, "a block below 1 raises ValueError", _bad_blocks),
    ],
    mistakes=[
        Mistake(
            "not rounded",
            "only whole blocks are reused: round down to a multiple of the block",
            [_prefix(lambda s, p, b: _left(s, p)), _prefix(lambda s, p, b: _common(s, p))],
        ),
        Mistake(
            "rounded up",
            "round down: a block that agrees only in part is not reused",
            [
                _prefix(lambda s, p, b: _up(_left(s, p), b)),
                _prefix(lambda s, p, b: min(_up(_left(s, p), b), max(len(p) - 1, 0))),
                _prefix(lambda s, p, b: _up(_common(s, p), b)),
            ],
        ),
        Mistake(
            "rounded to the nearest",
            "round down: a block that agrees only in part is not reused",
            _prefix(lambda s, p, b: round(_left(s, p) / b) * b),
        ),
        Mistake(
            "no token left",
            "at least one token of the prompt has to be computed, also when all of them are stored",
            _prefix(lambda s, p, b: _down(_common(s, p), b)),
        ),
        Mistake(
            "cut after rounding",
            "leave a token first, then round down: the result is a multiple of the block",
            _prefix(lambda s, p, b: max(0, min(_down(_common(s, p), b), len(p) - 1))),
        ),
        Mistake(
            "a token always left",
            "a whole block is reused when the prompt goes on behind it",
            [
                _prefix(lambda s, p, b: max(0, _down(_common(s, p) - 1, b))),
                _prefix(lambda s, p, b: _down(_common(s, p) - 1, b)),
            ],
        ),
        Mistake(
            "last stored token left",
            "it is the prompt that keeps a token to compute; of the stored text all may be reused",
            [
                _prefix(lambda s, p, b: max(0, _down(min(_left(s, p), len(s) - 1), b))),
                _prefix(lambda s, p, b: max(0, _down(min(_common(s, p), len(s) - 1), b))),
            ],
        ),
        Mistake(
            "agreement anywhere",
            "count from the left and stop at the first difference",
            [
                _prefix(lambda s, p, b: _down(min(_equal_places(s, p), max(len(p) - 1, 0)), b)),
                _prefix(_equal_blocks),
            ],
        ),
        Mistake(
            "all or nothing",
            "a common beginning counts also where the stored text goes on in another way",
            _prefix(_whole_text),
        ),
        Mistake(
            "number of blocks",
            "the result is a number of tokens, not of blocks",
            _prefix(lambda s, p, b: _left(s, p) // b),
        ),
        Mistake(
            "empty prompt",
            "an empty prompt gives 0",
            _prefix(lambda s, p, b: _down(min(_common(s, p), len(p) - 1), b)),
        ),
        Mistake("lists changed", "take nothing out of the two lists: they stay as they are", _prefix(consumes=True)),
        Mistake(
            "bad blocks pass",
            "a block below 1 has to raise ValueError",
            [
                _prefix(lambda s, p, b: _down(_left(s, p), b), lambda b: False),
                _prefix(lambda s, p, b: _down(_left(s, p), b), lambda b: b == 0),
                _prefix(lambda s, p, b: _down(_left(s, p), b), lambda b: b < 0),
                _prefix(lambda s, p, b: _longest(s, p, b) if b > 0 else 0, lambda b: False),
                _prefix(lambda s, p, b: _longest(s, p, max(b, 1)), lambda b: False),
            ],
        ),
    ],
)
