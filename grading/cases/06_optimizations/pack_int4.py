"""Held-out cases of pack_int4 and unpack_int4. The oracle goes byte by byte in Python, apart from solution and kvlab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.typed_results import by_step, same_kind
from kvgrade.cases import Case, Exercise, Group, Mistake, Step, call, unchanged

Codes = list[int]
Pairs = Callable[[Codes], Sequence[tuple[int, int]]]


def _neighbours(codes: Codes, padding: int = 0) -> list[tuple[int, int]]:
    padded = [*codes, padding]
    return [(padded[i], padded[i + 1]) for i in range(0, len(codes), 2)]


def _pack(
    pairs: Pairs = _neighbours,
    nibble: Callable[[int], int] = lambda code: code % 16,
    swap: bool = False,
    dtype: str = "uint8",
    low: int = -8,
    high: int = 7,
    changes: bool = False,
) -> Callable[[Any], np.ndarray]:
    """pairs: which codes share a byte; nibble: the four bits of a code; low, high: what is let through."""

    def pack_int4(codes: Any) -> np.ndarray:
        values = codes.tolist()
        if any(not low <= code <= high for code in values):
            raise ValueError
        found = [(nibble(a), nibble(b)) for a, b in pairs(values)]
        if changes:
            codes.bitwise_and_(15)
        return np.array([(16 * a + b if swap else a + 16 * b) % 256 for a, b in found]).astype(dtype)

    return pack_int4


def _unpack(
    sign: Callable[[int], int] = lambda x: x - 16 if x > 7 else x,
    swap: bool = False,
    cut: Callable[[Codes, int], Codes] = lambda codes, n: codes[:n],
    order: Callable[[Codes], Codes] = lambda codes: codes,
    dtype: str = "int8",
    least: int = 0,
    most: Callable[[int], float] = lambda n_bytes: 2 * n_bytes,
) -> Callable[[Any, int], np.ndarray]:
    """sign: from four bits to a code; cut, order: of all codes of the bytes; least, most: which n are let through."""

    def unpack_int4(packed: Any, n: int) -> np.ndarray:
        if not least <= n <= most(len(packed)):
            raise ValueError
        halves = [(b // 16, b % 16) if swap else (b % 16, b // 16) for b in packed.tolist()]
        return np.array(cut(order([sign(x) for pair in halves for x in pair]), n)).astype(dtype)

    return unpack_int4


def _both(pack: Callable[..., Any] | None = None, unpack: Callable[..., Any] | None = None) -> dict[str, Any]:
    return {"pack_int4": pack or _pack(), "unpack_int4": unpack or _unpack()}


def _same(step: Step, mine: Any, its: Any) -> bool:
    return mine is its if isinstance(its, bool) else same_kind(mine, its) and bool((mine == its).all())


def _halves(codes: Codes) -> list[tuple[int, int]]:
    """The first half of the codes in the low bits, the second half in the high ones."""
    padded = [*codes, 0] if len(codes) % 2 else codes
    half = len(padded) // 2
    return list(zip(padded[:half], padded[half:], strict=True))


def _front_padded(codes: Codes) -> list[tuple[int, int]]:
    return _neighbours([0, *codes] if len(codes) % 2 else codes)


def _dropped(codes: Codes) -> list[tuple[int, int]]:
    return _neighbours(codes[: len(codes) // 2 * 2])


def _codes(rng: Generator, n: int, low: int, high: int = 7) -> torch.Tensor:
    return torch.from_numpy(rng.integers(low, high + 1, n).astype(np.int8))


def _packing(rng: Generator, low: int, *lengths: int) -> list[Case]:
    return [Case(call("pack_int4", _codes(rng, n, low))) for n in lengths]


def _negative(rng: Generator) -> list[Case]:
    every = torch.from_numpy(rng.permutation(np.arange(-8, 8)).astype(np.int8))
    codes = [every, _codes(rng, 6, -8, -1), torch.tensor([-8, 7, -1, -8], dtype=torch.int8)]
    return [Case(call("pack_int4", one), unchanged(0)) for one in codes]


def _bytes(rng: Generator, n: int, signs: bool = False) -> torch.Tensor:
    """Bytes whose halves are 0 to 7, or 0 to 15 with signs."""
    halves = rng.integers(0, 16 if signs else 8, (2, n))
    return torch.from_numpy((halves[0] + 16 * halves[1]).astype(np.uint8))


def _unpacking(rng: Generator, *sizes: tuple[int, int], signs: bool = False) -> list[Case]:
    return [Case(call("unpack_int4", _bytes(rng, n_bytes, signs), n)) for n_bytes, n in sizes]


def _signs(rng: Generator) -> list[Case]:
    every = torch.from_numpy(rng.permutation(256).astype(np.uint8))
    return [Case(call("unpack_int4", every, 512)), *_unpacking(rng, (1, 2), (9, 18), signs=True)]


def _no_code(rng: Generator) -> list[Case]:
    good = call("pack_int4", torch.tensor([2, 2], dtype=torch.int8))
    bad = [[0, 8], [-9, 1], [7, 7, 100], [-128], [3, int(rng.integers(8, 128))], [int(rng.integers(-127, -8)), 0]]
    return [Case(call("pack_int4", torch.tensor(codes, dtype=torch.int8)), good) for codes in bad]


def _no_length(rng: Generator) -> list[Case]:
    good = call("unpack_int4", torch.tensor([0x33], dtype=torch.uint8), 2)
    return [
        Case(call("unpack_int4", _bytes(rng, size), n), good) for size, n in ((1, 3), (4, 9), (3, -1), (2, -3), (0, 1))
    ]


EXERCISE = Exercise(
    "pack_int4",
    _both(),
    groups=[
        Group(
            "whole bytes",
            0.25,
            "two neighbours to a byte, the first in the low four bits",
            lambda rng: _packing(rng, 1, 2, 6, 20),
        ),
        Group(
            "an odd end",
            0.25,
            "an odd end is padded with 0: the high four bits of the last byte",
            lambda rng: [
                Case(call("pack_int4", torch.tensor([x] * n, dtype=torch.int8))) for x, n in ((5, 1), (3, 7), (6, 11))
            ],
        ),
        Group("negative codes", 0.25, "a negative code is stored as code + 16", _negative),
        Group(
            "unpack",
            0.25,
            "the low four bits of each byte come first",
            lambda rng: _unpacking(rng, (1, 2), (3, 6), (12, 24)),
        ),
        Group("unpack signs", 0.25, "four bits from 8 to 15 stand for a negative code", _signs),
        Group(
            "fewer codes than halves",
            0.25,
            "n says how many codes there are: what comes after is no code",
            lambda rng: [
                Case(call("unpack_int4", torch.tensor([0x55] * size, dtype=torch.uint8), n))
                for size, n in ((1, 1), (4, 7), (6, 11), (5, 4))
            ],
        ),
        Group("no codes of four bits", 0.25, "a code outside -8 to 7 raises ValueError", _no_code),
        Group("lengths that do not fit", 0.25, "n below 0, or above two for each byte, raises ValueError", _no_length),
    ],
    mistakes=[
        Mistake(
            "high half first",
            "the first code of a pair stands in the LOW four bits",
            [
                _both(_pack(swap=True), _unpack(swap=True)),
                _both(_pack(swap=True)),
                _both(unpack=_unpack(swap=True)),
            ],
        ),
        Mistake(
            "halves of the list",
            "neighbours share a byte, not the first and the second half of the list",
            [
                _both(_pack(_halves), _unpack(order=lambda codes: codes[0::2] + codes[1::2])),
                _both(_pack(_halves)),
                _both(unpack=_unpack(order=lambda codes: codes[0::2] + codes[1::2])),
            ],
        ),
        Mistake(
            "signs lost",
            "unpacked halves from 8 to 15 stand for negative codes: take 16 away",
            _both(unpack=_unpack(lambda x: x)),
        ),
        Mistake(
            "edge of the signs",
            "halves from 8 to 15 are negative, 7 and below are not",
            [
                _both(unpack=_unpack(lambda x: x - 16 if x > 8 else x)),
                _both(unpack=_unpack(lambda x: x - 16 if x >= 7 else x)),
            ],
        ),
        Mistake(
            "codes shifted",
            "a code is stored as it is, modulo 16, not with 8 added",
            [
                _both(_pack(nibble=lambda code: code + 8), _unpack(lambda x: x - 8)),
                _both(_pack(nibble=lambda code: code + 8)),
                _both(_pack(lambda codes: _neighbours(codes, -8), lambda code: code + 8)),
                _both(unpack=_unpack(lambda x: x - 8)),
            ],
        ),
        Mistake(
            "sign and size",
            "negative codes are stored in two's complement, -1 as 15",
            [
                _both(
                    _pack(nibble=lambda code: code if code >= 0 else (8 - code) % 16),
                    _unpack(lambda x: x if x < 8 else 8 - x),
                ),
                _both(_pack(nibble=lambda code: code if code >= 0 else (8 - code) % 16)),
                _both(unpack=_unpack(lambda x: x if x < 8 else 8 - x)),
                _both(_pack(nibble=abs)),
            ],
        ),
        Mistake(
            "sign bits spill over",
            "only four bits of the low code may go into the byte: a negative one fills the high bits too",
            [
                _both(_pack(nibble=lambda code: code)),
                _both(lambda codes: _spilled(codes)),
            ],
        ),
        Mistake(
            "odd end dropped",
            "the last code of an odd number has a byte of its own",
            _both(_pack(_dropped)),
        ),
        Mistake("padded in front", "the padding comes at the end", _both(_pack(_front_padded))),
        Mistake(
            "padded with the last code",
            "an odd end is padded with 0",
            _both(_pack(lambda codes: _neighbours(codes, codes[-1]))),
        ),
        Mistake(
            "padding unpacked",
            "n says how many codes there are: the padding is none",
            _both(unpack=_unpack(cut=lambda codes, n: codes)),
        ),
        Mistake(
            "padding cut by one",
            "n says how many codes there are, not whether one was padded",
            _both(unpack=_unpack(cut=lambda codes, n: codes[: len(codes) - n % 2])),
        ),
        Mistake(
            "not uint8",
            "the packed bytes have the dtype uint8",
            [_both(_pack(dtype=dtype)) for dtype in ("int64", "int8", "int32", "int16")],
        ),
        Mistake(
            "not int8",
            "the unpacked codes have the dtype int8",
            [_both(unpack=_unpack(dtype=dtype)) for dtype in ("int64", "uint8", "int32", "int16", "float32")],
        ),
        Mistake("-8 refused", "-8 is a code of four bits", _both(_pack(low=-7))),
        Mistake("inputs changed", "the codes were changed in place", _both(_pack(changes=True))),
        Mistake(
            "codes unchecked",
            "a code outside -8 to 7 raises ValueError, above and below",
            [
                _both(_pack(low=low, high=high))
                for low, high in ((-999, 999), (-8, 999), (-999, 7), (-8, 15), (-15, 15))
            ],
        ),
        Mistake(
            "n unchecked",
            "n below 0, or above two codes for each byte, raises ValueError",
            [
                _both(unpack=_unpack(least=least, most=most))
                for least in (-999, 0)
                for most in (lambda n_bytes: 999, lambda n_bytes: 2 * n_bytes)
                if least or most(1) > 2
            ],
        ),
    ],
    compare=by_step(_same),
)


def _spilled(codes: Any) -> np.ndarray:
    """codes[0::2] | codes[1::2] << 4 on signed codes."""
    values = codes.tolist()
    if any(not -8 <= code <= 7 for code in values):
        raise ValueError
    return np.array([(a | 16 * b) % 256 for a, b in _neighbours(values)]).astype(np.uint8)
