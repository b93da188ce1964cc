"""Held-out cases of stream_text. The oracle finds characters by their first byte, apart from solution and kvlab.

Where the mark of a broken byte stands is open: `_agree` compares the strings without marks, and the joined text with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, Outcome, call

MARK = "\ufffd"
LETTERS = "abcdefgh .,"
TWO, THREE, FOUR = "éñüßжщяλ", "€…日本語한", "🙂🎉🦙🏽"


def _ends(data: bytes) -> list[tuple[int, str]]:
    """(end, text) of each character, or broken piece, of all bytes: what one decoding with "replace" sees."""
    found, at = [], 0
    while at < len(data):
        size = next((n for n in (1, 2, 3, 4) if _is_text(data[at : at + n])), None)
        if size is None:  # a broken piece: the longest beginning of a character, at least one byte
            size = next((n for n in (3, 2) if _begins(data[at : at + n], n)), 1)
        found.append((at + size, data[at : at + size].decode("utf-8", "replace")))
        at += size
    return found


def _is_text(part: bytes) -> bool:
    try:
        return len(part.decode("utf-8")) == 1
    except UnicodeDecodeError:
        return False


def _begins(part: bytes, n: int) -> bool:
    """Whether these n bytes are the beginning of a longer character."""
    return len(part) == n and any(_is_text(part + rest) for rest in _TAILS)


_TAILS = [bytes(tail) for tail in ([0x80], [0xBF], [0x80, 0x80], [0xBF, 0x80])]


def _oracle(token_bytes: Sequence[bytes]) -> list[str]:
    """Each character goes to the token that holds its last byte; what the end cuts off goes to the last string."""
    data, out = b"".join(token_bytes), [""] * (len(token_bytes) + 1)
    edges = np.cumsum([len(token) for token in token_bytes])
    for end, text in _ends(data):
        cut_off = text == MARK and end == len(data)
        out[len(token_bytes) if cut_off else int(np.searchsorted(edges, end))] += text
    return out


def _stream(strings: Callable[[Sequence[bytes]], Any]) -> dict[str, Any]:
    return {"stream_text": lambda token_bytes: strings(token_bytes)}


def _whole_tokens(token_bytes: Sequence[bytes], errors: str = "replace") -> list[str]:
    """A token waits as a whole until everything that waits can be decoded."""
    out, waiting = [], b""
    for token in token_bytes:
        waiting += token
        try:
            out.append(waiting.decode())
            waiting = b""
        except UnicodeDecodeError:
            out.append("")
    return [*out, waiting.decode("utf-8", errors)]


def _shown_so_far(token_bytes: Sequence[bytes], strip: bool) -> list[str]:
    """Everything is decoded again, and what is longer than before is given out."""
    out, shown = [], ""
    for i in range(len(token_bytes)):
        text = b"".join(token_bytes[: i + 1]).decode("utf-8", "replace")
        text = text.rstrip(MARK) if strip else text
        out.append(text[len(shown) :])
        shown = text
    return [*out, b"".join(token_bytes).decode("utf-8", "replace")[len(shown) :]]


def _in_order(token_bytes: Sequence[bytes], change: Callable[[list[str]], list[str]]) -> list[str]:
    return change(_oracle(token_bytes))


def _later(strings: list[str]) -> list[str]:
    """The newest character waits for the next token."""
    out, waiting = [], ""
    for text in strings[:-1]:
        text = waiting + text
        out.append(text[:-1])
        waiting = text[-1:]
    return [*out, waiting + strings[-1]]


def _agree(case: Case, have: Sequence[Outcome], want: Sequence[Outcome]) -> bool:
    return all(
        "value" in mine and _same(mine["value"], its["value"]) if "value" in its else _raised(mine, its)
        for mine, its in zip(have, want, strict=True)
    )


def _same(mine: Any, its: list[str]) -> bool:
    if not isinstance(mine, list | tuple) or len(mine) != len(its) or not all(isinstance(x, str) for x in mine):
        return False
    same = all(a.replace(MARK, "") == b.replace(MARK, "") for a, b in zip(mine, its, strict=True))
    return same and "".join(mine) == "".join(its)


def _raised(mine: Outcome, its: Outcome) -> bool:
    error = mine.get("raised")
    bases = error.get("mro") if isinstance(error, dict) else None
    return isinstance(bases, list) and its["raised"]["type"] in bases


def _text(rng: Generator, letters: str, n: int) -> str:
    return "".join(rng.choice(list(letters), n))


def _cut(rng: Generator, data: bytes, n_tokens: int) -> list[bytes]:
    """At random places; tokens may be empty."""
    places = [0, *sorted(int(p) for p in rng.integers(0, len(data) + 1, n_tokens - 1)), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def _case(tokens: Sequence[bytes]) -> Case:
    return Case(call("stream_text", list(tokens)))


def _plain(rng: Generator) -> list[Case]:
    return [_case([_text(rng, LETTERS, int(k)).encode() for k in rng.integers(1, 6, n)]) for n in (1, 4, 9)]


def _whole(rng: Generator) -> list[Case]:
    """Characters of several bytes, none of them cut."""
    letters = LETTERS + TWO + THREE + FOUR
    return [_case([_text(rng, letters, int(k)).encode() for k in rng.integers(1, 5, n)]) for n in (2, 5, 8)]


def _bytewise(rng: Generator) -> list[Case]:
    texts = (_text(rng, TWO, 3), _text(rng, THREE, 2), _text(rng, FOUR, 2), _text(rng, LETTERS + TWO + FOUR, 6))
    return [_case([bytes([byte]) for byte in text.encode()]) for text in texts]


def _inside(rng: Generator) -> list[Case]:
    """Tokens that hold whole characters and end inside another one."""
    cases = []
    for letters in (TWO, THREE, FOUR):
        pairs = [(_text(rng, LETTERS, 2) + _text(rng, letters, 1)).encode() for _ in range(4)]
        data = b"".join(pairs)
        edges = np.cumsum([len(pair) for pair in pairs]) - 1
        places = [0, *(int(edge) for edge in edges), len(data)]
        cases.append(_case([data[a:b] for a, b in pairwise(places)]))
    return cases


def _empty(rng: Generator) -> list[Case]:
    words = [_text(rng, LETTERS, 3).encode() for _ in range(3)]
    return [_case([]), _case([b""]), _case([words[0], b"", words[1], b"", b"", words[2]])]


def _cut_off(rng: Generator) -> list[Case]:
    """The stream ends inside a character, after whole ones."""
    return [
        _case([_text(rng, LETTERS, 3).encode(), *(bytes([byte]) for byte in _text(rng, letters, 1).encode()[:-1])])
        for letters in (TWO, THREE, FOUR)
    ]


def _broken(rng: Generator) -> list[Case]:
    """Bytes that are no text at all, each in a token of its own between plain ones."""
    return [
        _case([_text(rng, LETTERS, 2).encode(), bad, _text(rng, LETTERS, 3).encode(), _text(rng, LETTERS, 1).encode()])
        for bad in (b"\xff", b"\xc0\x80", b"\xfe\xff", b"\x9f")
    ]


def _anything(rng: Generator) -> list[Case]:
    """Text of all kinds cut anywhere, with accents that go on letters, and joined emoji."""
    letters = LETTERS + TWO + THREE + FOUR + "\u0301\u200d\ufe0f"
    return [_case(_cut(rng, _text(rng, letters, 20).encode(), n)) for n in (6, 12, 25)]


EXERCISE = Exercise(
    "stream_text",
    _stream(_oracle),
    groups=[
        Group("plain letters", 0.25, "each token gives its own text", _plain),
        Group("whole characters", 0.25, "characters of several bytes that no token cuts", _whole),
        Group("byte by byte", 0.25, "a character comes with its last byte", _bytewise),
        Group("cut inside", 0.25, "whole characters do not wait for the one that is cut", _inside),
        Group("empty tokens", 0.25, "one string for each token, and one more at the end", _empty),
        Group("cut off", 0.25, "what never became complete is the mark in the last string", _cut_off),
        Group("broken bytes", 0.25, "bytes that are no text give U+FFFD, and what comes after goes on", _broken),
        Group("anything", 0.25, "each character with the token that completes it", _anything),
    ],
    mistakes=[
        Mistake(
            "each token alone",
            "a character may be spread over several tokens: its first bytes have to wait",
            _stream(lambda tokens: [*(token.decode("utf-8", "replace") for token in tokens), ""]),
        ),
        Mistake(
            "cut characters lost",
            "the bytes of a character that is cut have to wait, not to be left out",
            _stream(lambda tokens: [*(token.decode("utf-8", "ignore") for token in tokens), ""]),
        ),
        Mistake(
            "whole tokens wait",
            "only the bytes of the incomplete character wait, not the whole token, and broken bytes hold up nothing",
            [_stream(_whole_tokens), _stream(lambda tokens: _whole_tokens(tokens, "ignore"))],
        ),
        Mistake(
            "marks shown early",
            "an incomplete character shows nothing: what was shown cannot be taken back",
            _stream(lambda tokens: _shown_so_far(tokens, strip=False)),
        ),
        Mistake(
            "everything so far",
            "each string holds what is new, not everything so far",
            _stream(lambda tokens: _in_order(tokens, lambda s: ["".join(s[: i + 1]) for i in range(len(s))])),
        ),
        Mistake(
            "the newest waits",
            "a complete character does not wait for the next token",
            _stream(lambda tokens: _in_order(tokens, _later)),
        ),
        Mistake(
            "nothing for the end",
            "there is one string more than tokens",
            [_stream(lambda tokens: _oracle(tokens)[:-1]), _stream(lambda tokens: [t for t in _oracle(tokens) if t])],
        ),
        Mistake(
            "the end lost",
            "what never became complete is the mark in the last string",
            [_stream(lambda tokens: [*_oracle(tokens)[:-1], ""])],
        ),
        Mistake(
            "empty strings left out",
            "a token that completes nothing has its string too: it is empty",
            _stream(lambda tokens: [*(t for t in _oracle(tokens)[:-1] if t), _oracle(tokens)[-1]]),
        ),
        Mistake(
            "empty tokens passed over",
            "an empty token has its string too",
            _stream(lambda tokens: _oracle([token for token in tokens if token])),
        ),
        Mistake(
            "broken bytes lost",
            "bytes that are no text give U+FFFD",
            _stream(lambda tokens: _in_order(tokens, lambda s: [t.replace(MARK, "") for t in s])),
        ),
        Mistake(
            "broken bytes refused",
            "bytes that are no text give U+FFFD, not an error",
            _stream(lambda tokens: _strict(tokens)),
        ),
        Mistake(
            "characters of one byte",
            "the bytes are UTF-8: a character may have up to four",
            _stream(lambda tokens: [*(token.decode("latin-1") for token in tokens), ""]),
        ),
        Mistake(
            "all at the end",
            "a character comes with the token that completes it",
            _stream(lambda tokens: [*("" for _ in tokens), b"".join(tokens).decode("utf-8", "replace")]),
        ),
    ],
    compare=_agree,
)


def _strict(tokens: Sequence[bytes]) -> list[str]:
    b"".join(tokens).decode()  # raises, as a strict decoder does
    return _oracle(tokens)
