"""Held-out cases of kv_cache_bytes. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call
from kvlab import published


def _bytes(
    count: Callable[..., float] = lambda L, h, d, n, b, w: 2 * L * h * d * n * b * w,
    refuses: Callable[[tuple[float, ...]], bool] = lambda factors: any(f < 0 for f in factors),
) -> dict[str, Any]:
    def kv_cache_bytes(
        n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: float = 2
    ) -> float:
        factors = (n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value)
        if refuses(factors):
            raise ValueError
        return count(*factors)

    return {"kv_cache_bytes": kv_cache_bytes}


def _sizes(rng: Generator, layers: int | None = None) -> list[int]:
    n_layers, heads, width, length = (int(x) for x in rng.integers((2, 2, 3, 5), (40, 9, 65, 500)))
    return [layers or n_layers, heads, 2 * width, 2 * length + 1]


def _bytes_case(*args: Any, **kwargs: Any) -> Case:
    return Case(call("kv_cache_bytes", *args, **kwargs))


def _published(rng: Generator) -> list[Case]:
    """Shapes of published models that have one kind of layer."""
    plain = [m for m in published.models().values() if len(m.layers) == 1 and m.layers[0].kind == "full"]
    picked = [plain[int(i)] for i in rng.permutation(len(plain))[:4]]
    return [_bytes_case(m.n_layers, m.n_kv_heads, m.d_head, int(rng.integers(100, 100_000))) for m in picked]


def _negative(rng: Generator) -> list[Case]:
    cases = []
    for position in range(6):
        args: list[float] = [*_sizes(rng), 1, 2]
        args[position] *= -1
        cases.append(Case(call("kv_cache_bytes", *args), call("kv_cache_bytes", 4, 4, 4, 10, 0)))
    for pair in ((0, 3), (1, 4), (2, 5)):
        args = [*_sizes(rng), 1, 2]
        for position in pair:
            args[position] *= -1
        cases.append(Case(call("kv_cache_bytes", *args), call("kv_cache_bytes", 4, 4, 4, 10, 0)))
    return cases


EXERCISE = Exercise(
    "kv_cache_bytes",
    _bytes(),
    groups=[
        Group(
            "sixteen bits",
            0.25,
            "two tensors, K and V, in each layer and KV head, two bytes a number",
            lambda rng: [_bytes_case(*_sizes(rng)) for _ in range(4)],
        ),
        Group(
            "published models", 0.25, "two tensors, K and V, in each layer and KV head, two bytes a number", _published
        ),
        Group(
            "batches",
            0.25,
            "each sequence of a batch has a cache of its own",
            lambda rng: [_bytes_case(*_sizes(rng, 1), int(b)) for b in rng.integers(2, 65, 3)],
        ),
        Group(
            "other widths",
            0.25,
            "bytes_per_value is a factor like the others",
            lambda rng: [_bytes_case(*_sizes(rng, 1), bytes_per_value=w) for w in (1, 4, 8)],
        ),
        Group(
            "fractions of a byte",
            0.25,
            "bytes_per_value may be a fraction, and the result is not rounded",
            lambda rng: [_bytes_case(1, 1, 1, 2 * int(n) + 1, 1, 0.25) for n in rng.integers(1, 90, 3)],
        ),
        Group("no tokens", 0.25, "no tokens take no bytes", lambda rng: [_bytes_case(*_sizes(rng)[:3], 0)]),
        Group("no sequences", 0.25, "no sequences take no bytes", lambda rng: [_bytes_case(*_sizes(rng), 0)]),
        Group("negative sizes", 0.25, "a negative argument raises ValueError, each one of them", _negative),
    ],
    mistakes=[
        Mistake(
            "one tensor only",
            "the cache holds two tensors, K and V",
            _bytes(lambda L, h, d, n, b, w: L * h * d * n * b * w),
        ),
        Mistake(
            "layers forgotten",
            "every layer has a cache of its own",
            _bytes(lambda L, h, d, n, b, w: 2 * h * d * n * b * w),
        ),
        Mistake(
            "batch forgotten",
            "each sequence of a batch has a cache of its own",
            _bytes(lambda L, h, d, n, b, w: 2 * L * h * d * n * w),
        ),
        Mistake(
            "always two bytes", "bytes_per_value is ignored", _bytes(lambda L, h, d, n, b, w: 4 * L * h * d * n * b)
        ),
        Mistake(
            "one position more",
            "seq_len tokens are stored, not one more",
            _bytes(lambda L, h, d, n, b, w: 2 * L * h * d * (n + 1) * b * w),
        ),
        Mistake("in MiB", "the result is in bytes", _bytes(lambda L, h, d, n, b, w: 2 * L * h * d * n * b * w / 2**20)),
        Mistake(
            "rounded",
            "the result is not rounded: 4-bit numbers make halves",
            _bytes(lambda L, h, d, n, b, w: int(2 * L * h * d * n * b * w)),
        ),
        Mistake(
            "checks the product",
            "two negative arguments make a positive product: check each",
            _bytes(refuses=lambda f: math.prod(f) < 0),
        ),
        Mistake(
            "some sizes unchecked",
            "every argument is checked, batch and bytes_per_value too",
            [_bytes(refuses=lambda f: any(x < 0 for x in f[:4]))]
            + [_bytes(refuses=lambda f, i=i: any(x < 0 for x in (*f[:i], *f[i + 1 :]))) for i in range(6)],
        ),
        Mistake("no errors", "negative arguments have to raise ValueError", _bytes(refuses=lambda f: False)),
    ],
    rtol=1e-6,
    atol=0.0,
)
