"""Multiply-adds (MACs) of the naive and of the cached loop. One MAC is two FLOPs.

A pass over a decoder does four kinds of work: the attention projections (Q, K, V, O), the feed-forward network
(FFN), attention itself (scores and the weighted sum) and the head. The first two cost the same for every token;
attention grows with the number of (query, key) pairs. Norms, softmax and RoPE are left out: they are small.
"""

import math
from collections.abc import Callable
from typing import Any

from kvlab.arithmetic.memory import causal_sum
from kvlab.published import LayerGroup, PublishedModel, shape_of
from kvlab.validate import whole

Macs = dict[str, int]


def positions_processed(prompt_len: int, n_new: int, cached: bool) -> int:
    """Token positions pushed through the layers to produce `n_new` tokens after a prompt of `prompt_len`.

    Naive: the whole prefix again for each token, prompt_len + (prompt_len + 1) + ...; cached: the prompt once,
    then one position per further token, prompt_len + n_new - 1. 0 for n_new = 0. prompt_len must be at least 1.
    (1, 200) gives 20100 and 200.
    """
    prompt, new = whole("prompt_len", prompt_len, least=1), whole("n_new", n_new)
    if new == 0:
        return 0
    return prompt + new - 1 if cached else causal_pairs(new - 1, prompt - 1) + prompt + new - 1


def positions_ratio(prompt_len: int, n_new: int) -> float:
    """How many times more positions the naive loop pushes through the linear layers."""
    new = whole("n_new", n_new, least=1)
    return positions_processed(prompt_len, new, False) / positions_processed(prompt_len, new, True)


def causal_pairs(n_new: int, n_past: int = 0, window: int | None = None, causal: bool = True) -> int:
    """(query, key) pairs when `n_new` tokens follow `n_past`: each sees the past, itself and the new ones before it.

    With a window, a token sees itself and the window - 1 before it. With causal=False the masked half counts too,
    as in code that computes the full square and then masks it.
    """
    new, past = whole("n_new", n_new), whole("n_past", n_past)
    if not causal:
        return new * (new + past)
    if window is None:
        return new * past + causal_sum(new)
    width = whole("window", window, least=1)
    growing = min(new, max(0, width - past))  # queries that still see everything before them
    return growing * past + causal_sum(growing) + (new - growing) * width


def linear_macs_per_token(model: Any) -> int:
    """MACs of projections and FFN for one token through all blocks; the head is not included."""
    shape = _dense(model)
    projections, ffn = _linear_per_layer(shape)
    return shape.n_layers * (projections + ffn)


def pass_macs(model: Any, n_new: int, n_past: int = 0, head_positions: int = 1, causal: bool = True) -> Macs:
    """MACs of one forward pass of `n_new` tokens after `n_past` cached ones, by part, with their `total`.

    Causal attention is counted exactly (see `causal_pairs`); the head runs at `head_positions` positions.
    Raises ValueError for mixtures of experts, latent and linear attention, whose work depends on more than the shape.
    """
    shape = _dense(model)
    new, past = whole("n_new", n_new), whole("n_past", n_past)
    projections, ffn = _linear_per_layer(shape)
    per_pair = 2 * shape.n_heads * shape.d_head  # one d_head-long product for the score, one for the weighted sum
    pairs = sum(g.layers * causal_pairs(new, past, g.window, causal) for g in shape.layers)
    return _with_total(
        {
            "projections": shape.n_layers * new * projections,
            "ffn": shape.n_layers * new * ffn,
            "attention": per_pair * pairs,
            "head": whole("head_positions", head_positions) * shape.d_model * shape.vocab_size,
        }
    )


def generation_macs(
    model: Any,
    prompt_len: int,
    n_new: int,
    cached: bool,
    head: bool = True,
    causal: bool = True,
) -> Macs:
    """MACs to produce `n_new` tokens after a prompt, by part, with their `total`.

    The naive loop runs a full pass per token; the cached one a prefill, then one-token passes. The head runs once
    per token (leave it out with head=False).
    """
    shape = _dense(model)
    prompt, new = whole("prompt_len", prompt_len, least=1), whole("n_new", n_new)
    parts: Macs = {"projections": 0, "ffn": 0, "attention": 0, "head": 0}
    for step in range(new):
        if cached:
            n_in, n_past = (prompt, 0) if step == 0 else (1, prompt + step - 1)
        else:
            n_in, n_past = prompt + step, 0
        for part, macs in pass_macs(shape, n_in, n_past, int(head), causal).items():
            if part != "total":
                parts[part] += macs
    return _with_total(parts)


def saved_macs(model: Any, prompt_len: int, n_new: int, head: bool = True, causal: bool = True) -> dict[str, float]:
    """What the cache saves: MACs by part, `total`, and `linear_share`, the part of it that is not attention."""
    naive = generation_macs(model, prompt_len, n_new, False, head, causal)
    cached = generation_macs(model, prompt_len, n_new, True, head, causal)
    saved: dict[str, float] = {part: naive[part] - cached[part] for part in naive}
    if not saved["total"]:
        raise ValueError("nothing is saved yet: the cache pays from the second token on, so n_new must be at least 2")
    return saved | {"linear_share": (saved["projections"] + saved["ffn"]) / saved["total"]}


def speedup_in_macs(model: Any, prompt_len: int, n_new: int, head: bool = True, causal: bool = True) -> float:
    """MACs of the naive loop over MACs of the cached loop. Time follows it only where compute is the limit."""
    whole("n_new", n_new, least=1)
    naive = generation_macs(model, prompt_len, n_new, False, head, causal)["total"]
    return naive / generation_macs(model, prompt_len, n_new, True, head, causal)["total"]


def step_growth(model: Any, first: int, last: int) -> float:
    """By which share a cached step gets dearer from `first` to `last` tokens in the cache, its own token included."""
    costs = [pass_macs(model, 1, whole("position", n, least=1) - 1, 0)["total"] for n in (first, last)]
    return costs[1] / costs[0] - 1


def attention_equals_linear_tokens(model: Any, step: bool = False) -> float:
    """Length at which attention does as many MACs as projections and FFN.

    For a causal pass over a whole prompt; with step=True for one cached step (or a pass that computes the full
    square), where it comes at half that length.
    """
    shape = _dense(model)
    if any(g.window is not None for g in shape.layers):
        raise ValueError(f"{shape.name} has windowed layers, whose attention stops growing: there is no single length")
    return linear_macs_per_token(shape) / (shape.n_layers * shape.n_heads * shape.d_head * (2 if step else 1))


def kv_projection_share(model: Any) -> float:
    """Share of the K and V projections in the linear MACs (projections and FFN) of a token."""
    shape = _dense(model)
    return 2 * shape.d_model * shape.n_kv_heads * shape.d_head / sum(_linear_per_layer(shape))


def growth_exponent(fn: Callable[[int], float], n: int) -> float:
    """Local power of growth: log2(fn(2n) / fn(n)). 1 is linear, 2 quadratic, 3 cubic."""
    size = whole("n", n, least=1)
    small, large = fn(size), fn(2 * size)
    if small <= 0 or large <= 0:
        raise ValueError(
            f"fn must be positive at {size} and {2 * size} to have a growth exponent, got {small}, {large}"
        )
    return math.log2(large / small)


def attention_pairs(n: int, cached: bool, causal: bool = True) -> int:
    """(query, key) pairs summed over a generation of `n` tokens that starts with one.

    Naive about n^3 / 6 (n^3 / 3 with the masked half), cached n^2 / 2.
    """
    tokens = whole("n", n)
    if cached:
        return causal_sum(tokens)
    return sum(causal_pairs(t, causal=causal) for t in range(1, tokens + 1))


def attention_growth_exponent(n: int, cached: bool) -> float:
    """Exponent of the attention work of a whole generation between n and 2n tokens: towards 3 naive, 2 cached."""
    return growth_exponent(lambda tokens: attention_pairs(tokens, cached), n)


def linear_growth_exponent(n: int, cached: bool) -> float:
    """Exponent of the projection and FFN work of a whole generation between n and 2n tokens: 2 naive, 1 cached."""
    return growth_exponent(lambda tokens: positions_processed(1, tokens, cached), n)


def generation_growth_exponent(model: Any, n: int, cached: bool, causal: bool = True) -> float:
    """Exponent of all MACs of a generation that starts with one token, between n and 2n tokens, head left out."""
    return growth_exponent(lambda tokens: generation_macs(model, 1, tokens, cached, False, causal)["total"], n)


def _linear_per_layer(shape: PublishedModel) -> tuple[int, int]:
    q, kv = shape.n_heads * shape.d_head, shape.n_kv_heads * shape.d_head
    return 2 * shape.d_model * (q + kv), shape.ffn_matrices * shape.d_model * shape.d_ff


def _dense(model: Any) -> PublishedModel:
    shape = shape_of(model)
    if shape.moe or any(_odd(group) for group in shape.layers):
        raise ValueError(
            f"MACs are counted for dense models with ordinary attention, and {shape.name} is another kind: "
            f"{shape.note or 'mixture of experts, latent or linear attention'}"
        )
    return shape


def _odd(group: LayerGroup) -> bool:
    return group.kind in ("latent", "none")


def _with_total(parts: Macs) -> Macs:
    return {**parts, "total": sum(parts.values())}
