"""Held-out cases of request_cost. The oracle is written apart from the unit's solution and from kvlab.

Outside of the group of small requests all amounts are whole cents, so that rounding alone fails one group only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

INPUT, WRITE, READ, OUTPUT = KEYS = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)
Bill = Callable[[list[int], list[float]], float]


def _exact(counts: list[int], prices: list[float]) -> float:
    """In fractions: nothing is rounded before the end."""
    return float(sum(Fraction(price) * count for count, price in zip(counts, prices, strict=True)) / 10**6)


def _cost(
    bill: Bill = _exact,
    refuses: Callable[[list[int]], bool] = lambda counts: min(counts) < 0,
    missing: type[Exception] | None = None,
    none: type[Exception] | None = None,
    others: Callable[[Mapping[str, Any], Mapping[str, float]], float] = lambda usage, prices: 0.0,
    fills: bool = False,
) -> dict[str, Any]:
    """The bill, with the ways to get it wrong as arguments. others: what the other keys of usage add."""

    def request_cost(usage: dict[str, Any], prices: dict[str, float]) -> float:
        if missing and any(key not in usage for key in KEYS):
            raise missing
        if none and any(usage.get(key, 0) is None for key in KEYS):
            raise none
        counts = [usage.get(key) or 0 for key in KEYS]
        if refuses(counts):
            raise ValueError
        added = others(usage, prices)
        if fills:
            usage.update(zip(KEYS, counts, strict=True))
        return added + bill(counts, [prices[name] for name in ("input", "cache_write", "cache_read", "output")])

    return {"request_cost": request_cost}


def _with_prices(change: Callable[[list[float]], list[float]]) -> dict[str, Any]:
    return _cost(lambda counts, prices: _exact(counts, change(prices)))


def _with_counts(change: Callable[[list[int]], list[int]]) -> dict[str, Any]:
    return _cost(lambda counts, prices: _exact(change(counts), prices))


def _other_numbers(usage: Mapping[str, Any], prices: Mapping[str, float]) -> float:
    """Bills every other number as input."""
    numbers = [value for key, value in usage.items() if key not in KEYS and isinstance(value, int)]
    return _exact([sum(numbers), 0, 0, 0], [prices["input"], 0.0, 0.0, 0.0])


def _other_key(usage: Mapping[str, Any], prices: Mapping[str, float]) -> float:
    """Looks for a price of every key."""
    if any(key not in KEYS for key in usage):
        raise KeyError
    return 0.0


def _prices(rng: Generator) -> dict[str, float]:
    """Four prices in half dollars, all different: read < input < write < output."""
    read, plain = 0.5 * int(rng.integers(1, 8)), 0.5 * int(rng.integers(9, 20))
    return {
        "input": plain,
        "cache_write": plain + 0.5 * int(rng.integers(1, 12)),
        "cache_read": read,
        "output": 20.0 + 0.5 * int(rng.integers(1, 30)),
    }


def _tokens(rng: Generator) -> int:
    return 20_000 * int(rng.integers(1, 60))


def _usage(rng: Generator, *keys: str) -> dict[str, Any]:
    """Tokens of these kinds, 0 of the others."""
    return {key: _tokens(rng) if key in keys else 0 for key in KEYS}


def _case(rng: Generator, usage: Mapping[str, Any]) -> Case:
    return Case(call("request_cost", dict(usage), _prices(rng)))


def _no_cache(rng: Generator) -> list[Case]:
    cases = [_case(rng, _usage(rng, *keys)) for keys in ((INPUT,), (OUTPUT,), (INPUT, OUTPUT))]
    return [*cases, _case(rng, _usage(rng))]


def _written(rng: Generator) -> list[Case]:
    return [_case(rng, _usage(rng, *keys)) for keys in ((WRITE,), (INPUT, WRITE), (INPUT, WRITE))]


def _read(rng: Generator) -> list[Case]:
    return [_case(rng, _usage(rng, *keys)) for keys in ((READ,), (INPUT, READ), (INPUT, READ))]


def _all_kinds(rng: Generator) -> list[Case]:
    return [_case(rng, _usage(rng, *KEYS)) for _ in range(3)]


def _missing(rng: Generator) -> list[Case]:
    cases = [_case(rng, {key: _tokens(rng) for key in keys}) for keys in ((INPUT,), (INPUT, OUTPUT), ())]
    return [Case(*case.steps, unchanged(0)) for case in cases[:1]] + cases[1:]


def _none(rng: Generator) -> list[Case]:
    cases = []
    for keys in ((WRITE,), (WRITE, READ), (OUTPUT,), (INPUT, OUTPUT)):
        usage = {**_usage(rng, INPUT, OUTPUT), **dict.fromkeys(keys)}
        cases.append(_case(rng, usage))
    return cases


def _other(rng: Generator) -> list[Case]:
    """What real services report besides; also numbers."""
    return [
        _case(rng, {**_usage(rng, INPUT), "total_tokens": _tokens(rng), "reasoning_tokens": _tokens(rng)}),
        _case(rng, {"service_tier": "standard", **_usage(rng, INPUT), "thinking_tokens": _tokens(rng)}),
    ]


def _small(rng: Generator) -> list[Case]:
    """Less than half a cent."""
    return [
        _case(rng, {**_usage(rng), INPUT: int(rng.integers(1, 80)), OUTPUT: int(n)}) for n in rng.integers(1, 50, 3)
    ]


def _negative(rng: Generator) -> list[Case]:
    """One count at a time; the others are large, so that the sum stays positive."""
    good = _case(rng, _usage(rng, INPUT)).steps
    usages = [{**_usage(rng, *KEYS), key: -int(rng.integers(1, 9))} for key in KEYS]
    return [Case(*_case(rng, usage).steps, *good) for usage in usages]


EXERCISE = Exercise(
    "request_cost",
    _cost(),
    groups=[
        Group("without a cache", 0.5, "input and output tokens, each at its own price per million", _no_cache),
        Group("written", 0.5, "tokens written to the cache cost cache_write", _written),
        Group("read", 0.5, "tokens read from the cache cost cache_read", _read),
        Group("all kinds", 0.25, "four products are added up", _all_kinds),
        Group("missing keys", 0.25, "a key that is missing counts 0; usage stays as it is", _missing),
        Group("None", 0.25, "None counts 0", _none),
        Group("other keys", 0.25, "other keys of usage are ignored", _other),
        Group("small requests", 0.25, "the result is not rounded", _small),
        Group("negative counts", 0.25, "a negative count raises ValueError, each one of them", _negative),
    ],
    mistakes=[
        Mistake(
            "reads as input",
            "tokens read from the cache have a price of their own: cache_read",
            _with_prices(lambda p: [p[0], p[1], p[0], p[3]]),
        ),
        Mistake(
            "reads for nothing",
            "tokens read from the cache are cheap, not free: cache_read",
            _with_prices(lambda p: [p[0], p[1], 0.0, p[3]]),
        ),
        Mistake(
            "writes as input",
            "tokens written to the cache have a price of their own: cache_write",
            _with_prices(lambda p: [p[0], p[0], p[2], p[3]]),
        ),
        Mistake(
            "writes for nothing",
            "tokens written to the cache are paid, at cache_write",
            _with_prices(lambda p: [p[0], 0.0, p[2], p[3]]),
        ),
        Mistake(
            "read and write swapped",
            "cache_creation tokens cost cache_write, cache_read tokens cost cache_read",
            _with_prices(lambda p: [p[0], p[2], p[1], p[3]]),
        ),
        Mistake(
            "subtracted from input",
            "input_tokens holds neither writes nor reads: subtract nothing",
            [
                _with_counts(lambda c: [c[0] - c[1] - c[2], *c[1:]]),
                _with_counts(lambda c: [c[0] - c[2], *c[1:]]),
                _with_counts(lambda c: [max(0, c[0] - c[1] - c[2]), *c[1:]]),
                _with_counts(lambda c: [max(0, c[0] - c[2]), *c[1:]]),
            ],
        ),
        Mistake(
            "paid as input too",
            "a token of the prompt is of one kind: what is written or read is not input besides",
            [
                _with_counts(lambda c: [c[0] + c[1] + c[2], *c[1:]]),
                _with_counts(lambda c: [c[0] + c[1], *c[1:]]),
                _with_counts(lambda c: [c[0] + c[2], *c[1:]]),
            ],
        ),
        Mistake(
            "output as input",
            "tokens of the answer have a price of their own: output",
            _with_prices(lambda p: [p[0], p[1], p[2], p[0]]),
        ),
        Mistake("output forgotten", "the answer is paid too", _with_prices(lambda p: [p[0], p[1], p[2], 0.0])),
        Mistake(
            "another unit",
            "prices are dollars per million tokens",
            [
                _cost(lambda counts, prices, f=factor: f * _exact(counts, prices))
                for factor in (1000.0, 1e6, 100.0, 1e6 / 2**20)
            ],
        ),
        Mistake(
            "missing keys refused",
            "a key that is missing counts 0",
            [_cost(missing=error) for error in (KeyError, ValueError, TypeError)],
        ),
        Mistake(
            "None refused",
            "None counts 0: the services send it for what they do not report",
            [_cost(none=error) for error in (TypeError, ValueError)],
        ),
        Mistake(
            "other keys billed",
            "other keys of usage are ignored, numbers too",
            [_cost(others=_other_numbers), _cost(others=_other_key)],
        ),
        Mistake(
            "rounded",
            "the result is not rounded: small requests cost a fraction of a cent",
            [_cost(lambda c, p, d=digits: round(_exact(c, p), d)) for digits in (2, 3, 4, 5)],
        ),
        Mistake("usage changed", "put nothing into usage: it stays as it is", _cost(fills=True)),
        Mistake(
            "negative counts pass",
            "a negative count has to raise ValueError, each of the four, whatever the others are",
            [_cost(refuses=lambda c: False), _cost(refuses=lambda c: sum(c) < 0)]
            + [_cost(refuses=lambda c, i=i: min((*c[:i], *c[i + 1 :])) < 0) for i in range(4)]
            + [_cost(refuses=lambda c, i=i: c[i] < 0) for i in range(4)]
            + [_cost(lambda c, p: _exact([max(0, n) for n in c], p), lambda c: False)],
        ),
    ],
    rtol=1e-6,
    atol=0.0,
)
