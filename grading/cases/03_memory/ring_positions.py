"""Held-out cases of ring_positions. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call

Slots = list[int]


def _newest(slot: int, length: int, window: int) -> int:
    """The largest position below length in a slot, found by looking from the end."""
    return next((p for p in range(length - 1, -1, -1) if p % window == slot), -1)


def _ring(
    slots: Callable[[int, int], Slots] = lambda n, w: [_newest(slot, n, w) for slot in range(w)],
    below_zero: bool = True,
    no_slot: type[Exception] | None = ValueError,
) -> dict[str, Any]:
    """`below_zero`: whether a negative length is refused; `no_slot`: the error for a window below 1."""

    def ring_positions(length: int, window: int) -> Slots:
        if below_zero and length < 0:
            raise ValueError
        if window < 1 and no_slot:
            raise no_slot
        return slots(length, window)

    return {"ring_positions": ring_positions}


def _by_age(n: int, w: int) -> Slots:
    """Oldest first, empty slots at the end."""
    held = list(range(max(n - w, 0), n))
    return held + [-1] * (w - len(held))


def _one_round(n: int, w: int) -> Slots:
    """Goes round once: right up to two windows."""
    return [slot if slot + w >= n else slot + w for slot in range(w)] if n >= w else _by_age(n, w)


def _right(n: int, w: int) -> Slots:
    return [_newest(slot, n, w) for slot in range(w)]


def _cases(*sizes: tuple[int, int]) -> list[Case]:
    return [Case(call("ring_positions", int(length), int(window))) for length, window in sizes]


def _windows(rng: Generator) -> list[int]:
    return [int(w) for w in rng.integers(4, 30, 3)]


def _refused(rng: Generator, lengths: bool) -> list[Case]:
    bad = [(-1, 4), (-int(rng.integers(2, 20)), 3)] if lengths else [(5, 0), (3, -int(rng.integers(1, 9))), (0, 0)]
    return [Case(call("ring_positions", *sizes), call("ring_positions", 3, 3)) for sizes in bad]


EXERCISE = Exercise(
    "ring_positions",
    _ring(),
    groups=[
        Group("nothing stored", 0.25, "an empty slot is -1", lambda rng: _cases(*((0, w) for w in _windows(rng)))),
        Group(
            "partly filled",
            0.25,
            "position p is in slot p, the other slots are -1",
            lambda rng: _cases(*((rng.integers(1, w), w) for w in _windows(rng))),
        ),
        Group("just full", 0.25, "position p is in slot p", lambda rng: _cases(*((w, w) for w in _windows(rng)))),
        Group(
            "second round",
            0.25,
            "position p overwrites what is in slot p % window",
            lambda rng: _cases(*((w + rng.integers(1, w), w) for w in _windows(rng))),
        ),
        Group(
            "many rounds",
            0.25,
            "the newest `window` positions are held, each in slot p % window",
            lambda rng: _cases(*((w * r + rng.integers(1, w), w) for w in _windows(rng) for r in (2, 5))),
        ),
        Group(
            "whole rounds",
            0.25,
            "after whole rounds the oldest position is in slot 0",
            lambda rng: _cases(*((w * r, w) for w in _windows(rng) for r in (2, 4))),
        ),
        Group("negative lengths", 0.25, "a negative length raises ValueError", lambda rng: _refused(rng, True)),
        Group("no slot", 0.25, "a window below 1 raises ValueError", lambda rng: _refused(rng, False)),
    ],
    mistakes=[
        Mistake(
            "by age",
            "the list is in the order of the slots, not of age",
            [_ring(_by_age), _ring(lambda n, w: _right(n, w) if n < w else _by_age(n, w))],
        ),
        Mistake(
            "newest first", "the list is in the order of the slots, not of age", _ring(lambda n, w: _by_age(n, w)[::-1])
        ),
        Mistake(
            "never overwritten",
            "a later position overwrites what is in its slot",
            _ring(lambda n, w: _by_age(min(n, w), w)),
        ),
        Mistake("one round only", "the ring goes round more than once", _ring(_one_round)),
        Mistake(
            "one position too far",
            "after `length` tokens the newest position is length - 1",
            [_ring(lambda n, w: _right(n + 1, w)), _ring(lambda n, w: _right(n + 1, w) if n else [-1] * w)],
        ),
        Mistake(
            "one position too few",
            "after `length` tokens the newest position is length - 1",
            _ring(lambda n, w: _right(max(n - 1, 0), w)),
        ),
        Mistake(
            "counted from 1",
            "the first position is 0",
            _ring(lambda n, w: [p + 1 if p >= 0 else -1 for p in _right(n, w)]),
        ),
        Mistake(
            "one slot further",
            "position p is in slot p % window",
            _ring(lambda n, w: [_right(n, w)[slot - 1] for slot in range(w)]),
        ),
        Mistake(
            "empty is 0", "an empty slot is -1: 0 is a position", _ring(lambda n, w: [max(p, 0) for p in _right(n, w)])
        ),
        Mistake(
            "empty slots negative",
            "an empty slot is -1, whatever the slot",
            _ring(lambda n, w: [p if p >= 0 else slot - w for slot, p in enumerate(_right(n, w))]),
        ),
        Mistake(
            "empty slots left out",
            "there is one entry for each slot, empty ones too",
            _ring(lambda n, w: [p for p in _right(n, w) if p >= 0]),
        ),
        Mistake(
            "slots after the wrap lost",
            "the older positions of a round before are still held",
            _ring(lambda n, w: [p if p // w == (n - 1) // w else -1 for p in _right(n, w)]),
        ),
        Mistake("negative lengths pass", "a negative length has to raise ValueError", _ring(below_zero=False)),
        Mistake(
            "windows below 1 pass",
            "a window below 1 has to raise ValueError, 0 and negative ones",
            [_ring(lambda n, w: _right(n, w) if w > 0 else [], no_slot=None), _ring(no_slot=ZeroDivisionError)]
            + [_ring(no_slot=None, slots=lambda n, w, zero=zero: _loop(n, w, zero)) for zero in (False, True)],
        ),
    ],
)


def _loop(n: int, w: int, zero: bool) -> Slots:
    """A loop that does not look at the window first; `zero`: it refuses 0 alone."""
    if zero and w == 0:
        raise ValueError
    slots = [-1] * w
    for p in range(n):
        slots[p % w] = p
    return slots
