"""The rule of speculative decoding: which draft tokens stay, what the next token is drawn from, and what it wins.

A small *draft* proposes K tokens, each drawn from its distribution q. One pass of the *target* gives its distribution p
at all K + 1 places. A draft token stays with probability min(1, p/q); after the first that does not, the next token is
drawn from what q took too little of, max(0, p - q). Then the text follows p exactly, whatever the draft is
(Leviathan et al., 2023, arXiv 2211.17192, algorithm 1; Chen et al., 2023, arXiv 2302.01318).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from kvlab import sampling
from kvlab.validate import amount, whole


def verify_draft(draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Any) -> tuple[int, torch.Tensor]:
    """How many draft tokens stay, and the distribution (V,) from which the token after them is drawn.

    draft_tokens: K token ids, K >= 0. draft_probs: (K, V), row i is what token i was drawn from. target_probs:
        (K + 1, V). uniforms: K numbers from [0, 1], one for each draft token. Lists, arrays or tensors.
    Token i stays when uniforms[i] < min(1, p/q); the first that does not ends the round. next_probs is then
    max(0, p - q) of that row, scaled to sum to 1, else the last target row: the *bonus token*.
    Wrong row counts, ids outside the vocabulary and a draft probability of 0 raise ValueError.
    """
    tokens, p, q, draws = _checked(draft_tokens, draft_probs, target_probs, uniforms)
    for i, token in enumerate(tokens):
        if not draws[i] < acceptance_probability(float(p[i, token]), float(q[i, token])):
            return i, residual_probs(p[i], q[i])
    return len(tokens), bonus_probs(q, p)


def acceptance_probability(p: float, q: float) -> float:
    """min(1, p/q): a token that the draft likes too much is thrown out just often enough."""
    return min(1.0, p / q)


def residual_probs(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """max(0, p - q), scaled to sum to 1, (V,): the share of p that accepted draft tokens do not cover."""
    left = (p - q).clamp(min=0)
    total = left.sum()
    return left / total if total > 0 else p  # p = q: nothing can be rejected but by rounding


def bonus_probs(draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
    """After K accepted tokens: the target's row for the place behind them, from the same pass."""
    return target_probs[-1]


def draft_distribution(
    logits: torch.Tensor, settings: sampling.SamplingSettings, context: Sequence[int], n_prompt: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a draft token is drawn from, and the q that the rule is told: they must be one and the same, (V,) each."""
    probs = sampling.next_token_probs(logits, settings, context, n_prompt)
    return probs, probs


def acceptance_rate(p: torch.Tensor, q: torch.Tensor) -> float:
    """Chance that a token drawn from q stays: the sum of min(p, q) over the vocabulary (Leviathan, theorem 3.5)."""
    if p.shape != q.shape or p.dim() != 1:
        raise ValueError(f"p and q must both be (vocab,), got {tuple(p.shape)} and {tuple(q.shape)}")
    return float(torch.minimum(p, q).sum())


def expected_tokens(acceptance: float, k: int) -> float:
    """Tokens that a round of `k` draft tokens gives on average: 1 + a + a² + ... + a^k (Leviathan, equation 1).

    acceptance: the chance that a draft token stays, given that those before it stayed; taken as the same everywhere.
    1 gives k + 1. Outside [0, 1], or k < 0, raises ValueError.
    """
    a, k = _acceptance(acceptance), whole("k", k)
    return k + 1.0 if a == 1 else (1 - a ** (k + 1)) / (1 - a)


def speedup(acceptance: float, k: int, cost_ratio: float, verify_cost: float = 1.0) -> float:
    """How many times as fast as plain decoding a round is: expected tokens over its cost (Leviathan, theorem 3.8).

    cost_ratio: time of a draft step over that of a target step. verify_cost: time of the target's pass over k + 1
    tokens, in target steps. The theorem takes it as 1, which holds while a pass is bound by reading the weights.
    """
    return expected_tokens(acceptance, k) / round_cost(k, cost_ratio, verify_cost)


def round_cost(k: int, cost_ratio: float, verify_cost: float = 1.0) -> float:
    """Time of a round in target steps: k draft steps and the pass that verifies them."""
    steps = whole("k", k) * amount("cost_ratio", cost_ratio)
    return steps + amount("verify_cost", verify_cost, positive=True)


def break_even(k: int, cost_ratio: float, verify_cost: float = 1.0) -> float:
    """The acceptance above which a round of `k` pays, from 0 to 1; inf where no acceptance does."""
    k, cost = whole("k", k, least=1), round_cost(k, cost_ratio, verify_cost)
    if cost > k + 1:
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(60):  # expected_tokens grows with the acceptance, so halving finds the place
        middle = (low + high) / 2
        low, high = (low, middle) if expected_tokens(middle, k) >= cost else (middle, high)
    return high


def best_k(acceptance: float, cost_ratio: float, most: int = 16, verify_cost: float = 1.0) -> int:
    """The draft length from 0 to `most` with the highest `speedup`; 0 when drafting never pays."""
    a = _acceptance(acceptance)
    gains = [1.0] + [speedup(a, k, cost_ratio, verify_cost) for k in range(1, whole("most", most, least=1) + 1)]
    return gains.index(max(gains))


def _acceptance(value: float) -> float:
    number = amount("acceptance", value)
    if number > 1:
        raise ValueError(f"acceptance is a probability and must lie between 0 and 1, got {value}")
    return float(number)


def _checked(
    draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Any
) -> tuple[list[int], torch.Tensor, torch.Tensor, list[float]]:
    """Tokens, p (K + 1, V), q (K, V) and uniforms, all of fitting sizes."""
    tokens = [whole("a draft token", t) for t in _listed("draft_tokens", draft_tokens)]
    draws = [float(u) for u in _listed("uniforms", uniforms)]
    p, q = _table("target_probs", target_probs), _table("draft_probs", draft_probs)
    k = len(tokens)
    if p.dim() != 2 or p.shape[0] != k + 1 or p.shape[1] == 0:
        raise ValueError(f"target_probs must be (K + 1, V) = ({k + 1}, V) for {k} draft tokens, got {tuple(p.shape)}")
    if k == 0 and q.numel() == 0:
        q = p[:0]
    if q.dim() != 2 or q.shape[0] != k or q.shape[1] != p.shape[1]:
        raise ValueError(
            f"draft_probs must be (K, V) = ({k}, {p.shape[1]}), got {tuple(q.shape)}: one row for each draft token, "
            f"and the vocabulary of the target"
        )
    if len(draws) != k:
        raise ValueError(f"there must be one uniform number for each of the {k} draft tokens, got {len(draws)}")
    if not (bool(p.isfinite().all()) and bool((p >= 0).all()) and bool((p.sum(-1) > 0).all())):
        raise ValueError("target_probs must hold probabilities: finite, none below 0, and no row of zeros")
    if not (bool(q.isfinite().all()) and bool((q >= 0).all())):
        raise ValueError("draft_probs must hold probabilities: finite, none below 0")
    if not all(0 <= u <= 1 for u in draws):
        raise ValueError("uniforms must lie between 0 and 1")
    for i, token in enumerate(tokens):
        if token >= p.shape[1]:
            raise ValueError(f"draft token {token} is outside the vocabulary of {p.shape[1]}")
        if not float(q[i, token]) > 0:
            raise ValueError(
                f"draft token {i} (id {token}) has a draft probability of {float(q[i, token])}: a token that was drawn "
                f"from draft_probs has more than 0. Pass the distribution it was drawn from, filters included"
            )
    return tokens, p, q, draws


def _table(name: str, values: Any) -> torch.Tensor:
    try:
        table = torch.as_tensor(values, dtype=None if hasattr(values, "dtype") else torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} must be a table of numbers with rows of one length, got {values!r:.60}") from None
    return table if table.is_floating_point() else table.double()


def _listed(name: str, values: Any) -> list[Any]:
    plain = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(plain, list | tuple):
        raise ValueError(f"{name} must be a list or a 1-D tensor, got {values!r:.60}")
    return list(plain)
