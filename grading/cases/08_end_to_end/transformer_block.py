"""Held-out cases of transformer_block. The oracle goes position by position, apart from the unit's solution and kvlab.

Only the group "one position" has two different norms, and a gate that differs from up: what is mixed up there shows
there alone. Caches come from the oracle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Array = np.ndarray
Weights = dict[str, Array]
NAMES = ("attn_norm", "wq", "wk", "wv", "wo", "mlp_norm", "w_gate", "w_up", "w_down")


def _silu(a: Array) -> Array:
    return a / (1 + np.exp(-a))


def _halves(x: Array, angles: Array) -> Array:
    z = (x[..., : len(angles)] + 1j * x[..., len(angles) :]) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag], axis=-1)


def _neighbours(x: Array, angles: Array) -> Array:
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def _block(
    eps: float = 1e-5,
    norms: tuple[str, str] = ("attn_norm", "mlp_norm"),
    turned: str = "qk",
    turn: Callable[[Array, Array], Array] = _halves,
    at: Callable[[Array, int], Array] = lambda positions, n_past: positions,
    scale: Callable[[int, int], float] = lambda d, width: 1 / math.sqrt(d),
    sees: Callable[[int, int, int], int] = lambda i, n_past, n: n_past + i + 1,
    kv_head: Callable[[int, int, int], int] = lambda h, n_heads, n_kv: h * n_kv // n_heads,
    residual: tuple[int, int] = (1, 1),
    second: Callable[[Array, Array], Array] = lambda x, h: h,
    mlp: Callable[[Array, Array], Array] = lambda gate, up: _silu(gate) * up,
    join: Callable[[Array, Array], Array] = lambda past, new: np.concatenate([past, new], axis=1),
    give: Callable[[Array, Array, int], tuple[Array, Array]] = lambda k, v, n_past: (k, v),
    old_turned_again: bool = False,
    head_major: bool = False,
    checks: str = "heads positions names",
    error: type[Exception] = KeyError,
    changes: bool = False,
) -> dict[str, Any]:
    """A block, with the ways to get it wrong as arguments.

    turned: which of q, k and v are; at: the positions that are used; sees: how many keys new position i sees; residual:
    whether x and h are added; second: what the second part starts from; join, give: past and new into one, and what
    is returned of it; head_major: columns read as (d, heads); error: what a missing name raises by itself.
    """

    def rope(rows: Array, positions: Array) -> Array:
        d = rows.shape[-1]
        frequencies = 1e4 ** (-2 * np.arange(d // 2) / d)
        return np.stack([turn(row, p * frequencies) for row, p in zip(rows.swapaxes(0, 1), positions, strict=True)], 1)

    def norm(rows: Array, weight: Array) -> Array:
        return rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + eps) * weight

    def split(rows: Array, heads: int) -> Array:
        """(n, heads * d) -> (heads, n, d)."""
        if head_major:
            return rows.reshape(heads, len(rows), -1)
        return rows.reshape(len(rows), heads, -1).swapaxes(0, 1)

    def sequence(x: Array, w: Weights, heads: int, kv: int, positions: Array, past: Any) -> tuple[Array, Array, Array]:
        n_past = 0 if past is None else past[0].shape[1]
        positions = at(positions, n_past)
        rows = norm(x, w[norms[0]])
        q, k, v = (split(rows @ w[name], count) for name, count in (("wq", heads), ("wk", kv), ("wv", kv)))
        q, k, v = (rope(part, positions) if name in turned else part for name, part in (("q", q), ("k", k), ("v", v)))
        if past is not None:
            old = rope(past[0], np.arange(n_past)) if old_turned_again else past[0]
            k, v = join(old, k), join(past[1], v)
        mixed = np.zeros(q.shape)
        for h, i in np.ndindex(q.shape[:2]):
            head, seen = kv_head(h, heads, kv), sees(i, n_past, len(x))
            scores = k[head, :seen] @ q[h, i] * scale(q.shape[2], x.shape[1])
            weights = np.exp(scores - scores.max())
            mixed[h, i] = weights @ v[head, :seen] / weights.sum()
        flat = mixed.reshape(len(x), -1) if head_major else mixed.swapaxes(0, 1).reshape(len(x), -1)
        h = residual[0] * x + flat @ w["wo"]
        rows = norm(second(x, h), w[norms[1]])
        y = residual[1] * h + mlp(rows @ w["w_gate"], rows @ w["w_up"]) @ w["w_down"]
        return y, *give(k, v, n_past)

    def transformer_block(
        x: Any, weights: Any, n_heads: int, n_kv_heads: int, positions: Any, cache: Any = None
    ) -> Any:
        fits = len(positions) == x.shape[1]
        if (n_heads % n_kv_heads and "heads" in checks) or (not fits and "positions" in checks):
            raise ValueError
        if missing := [name for name in NAMES if name not in weights]:
            raise ValueError if "names" in checks else error(missing[0])
        if n_heads % n_kv_heads or len(positions) not in (1, x.shape[1]):
            raise RuntimeError
        w = {name: matrix.double().numpy() for name, matrix in weights.items()}
        rows, at_positions = x.double().numpy(), np.resize(positions.numpy(), x.shape[1])
        past = (
            [None] * len(rows) if cache is None else list(zip(*(part.double().numpy() for part in cache), strict=True))
        )
        found = [sequence(rows[b], w, n_heads, n_kv_heads, at_positions, past[b]) for b in range(len(rows))]
        if changes:
            x.zero_()
        y, k, v = (np.stack(part) for part in zip(*found, strict=True))
        return y, (k, v)

    return {"transformer_block": transformer_block}


def _weights(rng: Generator, width: int, heads: int, kv: int, d: int, features: int, plain: bool = True) -> Weights:
    """plain: both norms alike, gate and up alike."""
    sizes = {"wq": (width, heads * d), "wk": (width, kv * d), "wv": (width, kv * d), "wo": (heads * d, width)}
    sizes |= {"w_gate": (width, features), "w_up": (width, features), "w_down": (features, width)}
    found = {name: rng.normal(size=size) / math.sqrt(size[0]) for name, size in sizes.items()}
    found |= {name: rng.uniform(0.5, 1.5, width) for name in ("attn_norm", "mlp_norm")}
    if plain:
        found |= {"mlp_norm": found["attn_norm"], "w_up": found["w_gate"]}
    return found


def _tensor(x: Array) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x, dtype=np.float32))


def _case(
    rng: Generator,
    batch: int,
    n: int,
    heads: int,
    kv: int,
    first: int = 0,
    n_past: int = 0,
    plain: bool = True,
    size: float = 1.5,
) -> Case:
    """n positions from `first` on, after n_past cached ones; size: of the entries of x."""
    d, width = 4, 6
    w = _weights(rng, width, heads, kv, d, 7, plain)
    x = rng.normal(size=(batch, n_past + n, width)) * size
    weights = {name: _tensor(matrix) for name, matrix in w.items()}
    positions = torch.arange(first, first + n_past + n)
    args = [_tensor(x[:, n_past:]), weights, heads, kv, positions[n_past:]]
    if n_past:
        _, past = _block()["transformer_block"](_tensor(x[:, :n_past]), weights, heads, kv, positions[:n_past])
        args.append(tuple(_tensor(part) for part in past))
    return Case(call("transformer_block", *args))


def _one_position(rng: Generator) -> list[Case]:
    cases = [_case(rng, 1, 1, 1, 1, plain=False), _case(rng, 1, 1, 2, 2, plain=False, size=0.004)]
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _refused(rng: Generator) -> list[Case]:
    good = _case(rng, 1, 1, 1, 1).steps
    x, weights, heads, kv, positions = _case(rng, 2, 5, 4, 2).steps[0]["args"]
    bad: list[Any] = [(x, weights, 4, 3, positions), (x, weights, 2, 4, positions)]
    bad += [(x, weights, heads, kv, positions[:4]), (x, weights, heads, kv, positions[:1])]
    for name in rng.permutation(NAMES)[:3]:
        bad.append((x, {key: matrix for key, matrix in weights.items() if key != name}, heads, kv, positions))
    return [Case(call("transformer_block", *args), *good) for args in bad]


EXERCISE = Exercise(
    "transformer_block",
    _block(),
    groups=[
        Group(
            "one position", 0.5, "two norms, two sums, v and wo, and swiglu; the inputs stay as they are", _one_position
        ),
        Group(
            "another position",
            0.5,
            "the returned k is turned by the given position, v is not",
            lambda rng: [_case(rng, 1, 1, 1, 1, first) for first in (3, 40, 200)],
        ),
        Group(
            "prefill",
            0.5,
            "causal attention: q and k turned, scores by the root of d, heads side by side",
            lambda rng: [_case(rng, 1, n, heads, heads) for n, heads in ((5, 1), (4, 3), (9, 2))],
        ),
        Group(
            "shared KV heads",
            0.5,
            "query head i reads KV head i // (n_heads / n_kv_heads)",
            lambda rng: [_case(rng, 1, 1, heads, kv) for heads, kv in ((4, 2), (6, 2), (6, 3), (4, 1))],
        ),
        Group(
            "decode",
            0.5,
            "one new position after cached ones; the pair holds past and new",
            lambda rng: [_case(rng, 1, 1, 2, 2, 0, n_past) for n_past in (1, 4, 11)],
        ),
        Group(
            "chunk",
            0.5,
            "new position i sees n_past + i + 1 keys",
            lambda rng: [_case(rng, 1, n, 2, 1, 0, n_past) for n, n_past in ((2, 3), (5, 2), (3, 8))],
        ),
        Group(
            "batch",
            0.5,
            "every sequence for itself; the head width is that of wq",
            lambda rng: [_case(rng, batch, 1, heads, kv) for batch, heads, kv in ((2, 1, 1), (3, 2, 2), (4, 3, 3))],
        ),
        Group("refused", 0.5, "uneven heads, positions that are not (n,), and missing weights raise", _refused),
    ],
    mistakes=[
        Mistake("a sum missing", "h is x + ..., y is h + ...", [_block(residual=(0, 1)), _block(residual=(1, 0))]),
        Mistake("second part from x", "the second part starts from h, not from x", _block(second=lambda x, h: x)),
        Mistake(
            "one norm for both",
            "each part has its own norm weights",
            [
                _block(norms=("attn_norm", "attn_norm")),
                _block(norms=("mlp_norm", "attn_norm")),
                _block(norms=("mlp_norm", "mlp_norm")),
            ],
        ),
        Mistake("another eps", "rms_norm has eps 1e-5", [_block(eps=eps) for eps in (1e-6, 1e-8, 0.0, 1e-12)]),
        Mistake(
            "gate and up swapped",
            "silu is applied to the gate, not to up",
            _block(mlp=lambda gate, up: gate * _silu(up)),
        ),
        Mistake("no positions", "q and k are turned by RoPE", _block(turned="")),
        Mistake("q not turned", "q and k are turned, both", [_block(turned="k"), _block(turned="q")]),
        Mistake("v turned", "v is not turned", _block(turned="qkv")),
        Mistake("neighbours paired", "half-split: entry i and entry i + d/2 are a pair", _block(turn=_neighbours)),
        Mistake(
            "positions ignored",
            "use the positions that are given, not the number of the row or the length of the cache",
            [
                _block(at=lambda positions, n_past: np.arange(len(positions))),
                _block(at=lambda positions, n_past: n_past + np.arange(len(positions))),
            ],
        ),
        Mistake("unscaled", "scores are divided by sqrt(d)", _block(scale=lambda d, width: 1.0)),
        Mistake(
            "scaled by another width",
            "scores are divided by the root of the head width",
            [_block(scale=lambda d, width: width**-0.5), _block(scale=lambda d, width: 1 / d)],
        ),
        Mistake("no mask", "no position sees a later one", _block(sees=lambda i, n_past, n: n_past + n)),
        Mistake("mask not moved", "new position i sees n_past + i + 1 keys", _block(sees=lambda i, n_past, n: i + 1)),
        Mistake(
            "heads tiled",
            "query head i reads KV head i // (n_heads / n_kv_heads): neighbours share",
            _block(kv_head=lambda h, heads, kv: h % kv),
        ),
        Mistake(
            "heads cut wrongly",
            "(B, n, heads, d) first, then heads and positions change places; a reshape alone mixes them",
            _block(head_major=True),
        ),
        Mistake(
            "cache ignored",
            "the cached keys and values come before the new ones",
            _block(join=lambda past, new: new, sees=lambda i, n_past, n: i + 1),
        ),
        Mistake(
            "new before past",
            "the cached ones come first",
            _block(join=lambda past, new: np.concatenate([new, past], 1)),
        ),
        Mistake(
            "new ones only",
            "the returned pair holds the past too",
            _block(give=lambda k, v, n_past: (k[:, n_past:], v[:, n_past:])),
        ),
        Mistake("old keys turned again", "the k of the cache is turned already", _block(old_turned_again=True)),
        Mistake("inputs changed", "x was changed in place", _block(changes=True)),
        Mistake(
            "names unchecked",
            "a missing name raises ValueError, not KeyError",
            [_block(checks="heads positions", error=error) for error in (KeyError, TypeError, AttributeError)],
        ),
        Mistake("positions unchecked", "positions are (n,), else ValueError", _block(checks="heads names")),
        Mistake(
            "uneven heads unchecked",
            "n_heads that is no multiple of n_kv_heads raises ValueError",
            _block(checks="positions names"),
        ),
    ],
)
