"""A whole decoder in plain numpy, small enough to step through in a debugger.

It has the parts of a Llama model: RMSNorm, rotary positions (RoPE, half-split), grouped-query attention and SwiGLU.
The weights are random, so the tokens mean nothing; what a KV cache does to the computation can be seen all the same.
Everything is float64, one sequence, no batch.

Two ways to generate: `generate_naive` pushes the whole sequence through the layers for every new token,
`generate_cached` pushes only the newest token and finds the keys and values of all earlier ones in the cache.

Shapes: n positions, D = d_model, H query heads, G key/value heads, d numbers per head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Cache = list[dict[str, np.ndarray]]  # per layer: "k" and "v", each (G, n, d)


@dataclass
class Decoder:
    """Sizes and weights. A matrix has shape (d_in, d_out) and is used as x @ w."""

    n_heads: int
    n_kv_heads: int
    d_head: int
    embedding: np.ndarray  # (vocab, D)
    layers: list[dict[str, np.ndarray]]
    head: np.ndarray  # (D, vocab); not the embedding again, or random weights would repeat one token for ever


class Run(NamedTuple):
    """The new tokens, and how many token positions went through the layers to get them."""

    tokens: list[int]
    positions: int


def random_decoder(
    vocab_size: int = 64,
    d_model: int = 32,
    n_layers: int = 2,
    n_heads: int = 4,
    n_kv_heads: int = 2,
    d_ff: int = 64,
    seed: int = 0,
) -> Decoder:
    """A decoder with random weights, scaled so that activations stay of order one.

    d_model must be a multiple of n_heads with an even quotient, n_heads a multiple of n_kv_heads; else ValueError.
    """
    if d_model % n_heads or (d_model // n_heads) % 2 or n_heads % n_kv_heads:
        raise ValueError(
            f"d_model / n_heads must be an even whole number and n_heads a multiple of n_kv_heads, "
            f"got d_model={d_model}, n_heads={n_heads}, n_kv_heads={n_kv_heads}"
        )
    rng = np.random.default_rng(seed)
    d_head = d_model // n_heads

    def matrix(d_in: int, d_out: int) -> np.ndarray:
        return rng.standard_normal((d_in, d_out)) / np.sqrt(d_in)

    layers = []
    for _ in range(n_layers):
        layers.append(
            {
                "attn_norm": np.ones(d_model),
                "wq": matrix(d_model, n_heads * d_head),
                "wk": matrix(d_model, n_kv_heads * d_head),
                "wv": matrix(d_model, n_kv_heads * d_head),
                "wo": matrix(n_heads * d_head, d_model),
                "mlp_norm": np.ones(d_model),
                "w_gate": matrix(d_model, d_ff),
                "w_up": matrix(d_model, d_ff),
                "w_down": matrix(d_ff, d_model),
            }
        )
    embedding = rng.standard_normal((vocab_size, d_model))
    return Decoder(n_heads, n_kv_heads, d_head, embedding, layers, matrix(d_model, vocab_size))


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Scale each row of x (n, D) to root mean square 1, then by weight (D,)."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def rope(x: np.ndarray, positions: np.ndarray, theta: float = 10000.0) -> np.ndarray:
    """Turn each pair (i, i + d/2) of x (heads, n, d) by an angle that grows with the position."""
    half = x.shape[-1] // 2
    angles = np.outer(positions, theta ** (-np.arange(half) / half))  # (n, d/2)
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def split_heads(x: np.ndarray, d_head: int) -> np.ndarray:
    """(n, heads * d) -> (heads, n, d)."""
    return x.reshape(len(x), -1, d_head).swapaxes(0, 1)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: bool) -> np.ndarray:
    """q (H, n_q, d) are the last n_q of the n_k positions in k and v (G, n_k, d); returns (n_q, H * d)."""
    group = len(q) // len(k)  # query heads that share one key/value head
    k, v = k.repeat(group, axis=0), v.repeat(group, axis=0)
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])  # (H, n_q, n_k)
    if mask:
        n_q, n_k = scores.shape[1:]
        in_the_past = np.tri(n_q, n_k, k=n_k - n_q, dtype=bool)  # row i sees keys 0 ... n_k - n_q + i
        scores = np.where(in_the_past, scores, -np.inf)
    return (softmax(scores) @ v).swapaxes(0, 1).reshape(q.shape[1], -1)


def run_layers(model: Decoder, ids: Sequence[int], cache: Cache, mask: bool = True) -> np.ndarray:
    """Push `ids` (n,) through all layers, after what `cache` already holds; returns logits (n, vocab).

    The cache is the only thing that changes: each layer appends the keys and values of the new positions.
    """
    n_past = cache[0]["k"].shape[1]
    positions = np.arange(n_past, n_past + len(ids))
    x = model.embedding[np.asarray(ids)]
    for weights, past in zip(model.layers, cache, strict=True):
        h = rms_norm(x, weights["attn_norm"])
        q = rope(split_heads(h @ weights["wq"], model.d_head), positions)
        k = rope(split_heads(h @ weights["wk"], model.d_head), positions)
        v = split_heads(h @ weights["wv"], model.d_head)
        past["k"] = np.concatenate([past["k"], k], axis=1)
        past["v"] = np.concatenate([past["v"], v], axis=1)
        x = x + attention(q, past["k"], past["v"], mask) @ weights["wo"]
        h = rms_norm(x, weights["mlp_norm"])
        gate = h @ weights["w_gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (h @ weights["w_up"])) @ weights["w_down"]
    return rms_norm(x, np.ones(x.shape[-1])) @ model.head


def empty_cache(model: Decoder) -> Cache:
    """A cache that holds no position yet."""
    nothing = np.zeros((model.n_kv_heads, 0, model.d_head))
    return [{"k": nothing, "v": nothing} for _ in model.layers]


def forward(model: Decoder, ids: Sequence[int], mask: bool = True) -> tuple[np.ndarray, list[np.ndarray]]:
    """Compute everything from nothing: logits (n, vocab) and the keys (G, n, d) of each layer.

    mask=False lets every position see the later ones too. Empty ids or ids outside the vocabulary raise ValueError.
    """
    _check_ids(model, ids)
    cache = empty_cache(model)
    logits = run_layers(model, ids, cache, mask)
    return logits, [layer["k"] for layer in cache]


def decode_step(model: Decoder, token: int, cache: Cache) -> np.ndarray:
    """Push one token through the layers; returns its logits (vocab,). The cache grows by one position."""
    _check_ids(model, [token])
    return run_layers(model, [token], cache)[-1]


def generate_naive(model: Decoder, prompt: Sequence[int], n_new: int) -> Run:
    """Greedy decoding without a cache: every step computes all positions again."""
    _check_ids(model, prompt, n_new)
    ids, positions = list(prompt), 0
    for _ in range(n_new):
        logits, _ = forward(model, ids)
        positions += len(ids)
        ids.append(int(logits[-1].argmax()))
    return Run(ids[len(prompt) :], positions)


def generate_cached(model: Decoder, prompt: Sequence[int], n_new: int) -> Run:
    """Greedy decoding with a cache: every position is computed once, the last new token not at all."""
    _check_ids(model, prompt, n_new)
    cache = empty_cache(model)
    tokens: list[int] = []
    positions = 0
    waiting = list(prompt)  # what has not been through the layers yet
    while len(tokens) < n_new:
        logits = run_layers(model, waiting, cache)
        positions += len(waiting)
        waiting = [int(logits[-1].argmax())]
        tokens += waiting
    return Run(tokens, positions)


def key_drift(model: Decoder, ids: Sequence[int], mask: bool = True) -> list[float]:
    """How far the keys of ids[:-1] move when ids[-1] is appended: the largest change in each layer.

    With the mask it is 0, apart from rounding (a matrix product may add its terms in another order for another number
    of rows; measured: about 2e-15). So a key can be stored once and used for good. Without the mask the keys of
    layer 0 stay, since they depend on their own token alone, and those of every later layer move.
    """
    _, before = forward(model, ids[:-1], mask)
    _, after = forward(model, ids, mask)
    return [float(np.abs(new[:, :-1] - old).max()) for old, new in zip(before, after, strict=True)]


def _check_ids(model: Decoder, ids: Sequence[int], n_new: int = 0) -> None:
    vocab_size = len(model.embedding)
    if n_new < 0:
        raise ValueError(f"n_new must be 0 or more, got {n_new}")
    if len(ids) == 0:
        raise ValueError("ids must hold at least one token")
    if min(ids) < 0 or max(ids) >= vocab_size:
        raise ValueError(f"ids must lie between 0 and {vocab_size - 1}, got {min(ids)} to {max(ids)}")
