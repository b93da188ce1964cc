"""Numbers that describe a distribution or a text: probabilities at a temperature, entropy, odds, distinct-n.

They take plain lists, so that tables and the register of claims can call them, and give plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from kvlab.sampling import filters
from kvlab.sampling._checks import real_number, whole_number


def token_probability(logits: Sequence[float], token: int, temperature: float = 1.0) -> float:
    """Probability of `token` among tokens with these logits, at a temperature. Bad values raise ValueError."""
    probs = filters.temperature_probs(_vector(logits, "logits"), temperature)
    index = whole_number(token, "token", 0)
    if index >= len(probs):
        raise ValueError(f"token must be from 0 to {len(probs) - 1}, got {index}")
    return float(probs[index])


def entropy(probs: Sequence[float] | torch.Tensor) -> float:
    """Entropy in nats, -sum p ln p. Probabilities are scaled to sum to 1 first; negative ones raise ValueError.

    exp(entropy) is the number of equally likely tokens that would be as uncertain.
    """
    values = _vector(probs, "probs")
    total = float(values.sum())
    if bool((values < 0).any()) or not 0 < total < math.inf:
        raise ValueError("probs must be non-negative and finite, with a sum above 0")
    found = float(-torch.special.xlogy(values / total, values / total).sum())
    return found + 0.0  # one token alone gives -0.0, which reads "-0.000" in a table


def entropy_at(logits: Sequence[float] | torch.Tensor, temperature: float) -> float:
    """Entropy in nats of softmax(logits / temperature)."""
    return entropy(filters.temperature_probs(_vector(logits, "logits"), temperature))


def probability_with_bias(probability: float, bias: float) -> float:
    """Probability of a token after `bias` is added to its logit: its odds p / (1 - p) are multiplied by exp(bias).

    A probability outside [0, 1] raises ValueError.
    """
    p, bias = real_number(probability, "probability"), real_number(bias, "bias")
    if not 0 <= p <= 1:
        raise ValueError(f"probability must lie between 0 and 1, got {p}")
    if p in (0, 1):
        return p
    # Divide by the larger of the two shares, so that no exp overflows.
    chosen, others = (p, (1 - p) * math.exp(-bias)) if bias >= 0 else (p * math.exp(bias), 1 - p)
    return chosen / (chosen + others)


def odds_factor(bias: float) -> float:
    """By what adding `bias` to a logit multiplies the odds of its token: exp(bias)."""
    return math.exp(real_number(bias, "bias"))


def tokens_in_nucleus(probs: Sequence[float], p: float) -> int:
    """How many tokens top-p keeps when the largest probabilities are these; they need not be complete."""
    falling = _vector(probs, "probs").sort(descending=True).values
    return filters.nucleus_size(falling, real_number(p, "p"))


def tokens_left_out(vocab_size: int, kept: int) -> int:
    """Tokens of the vocabulary that are not among `kept` of them."""
    return whole_number(vocab_size, "vocab_size", 1) - min(whole_number(kept, "kept", 0), vocab_size)


def distinct_n(tokens: Sequence[int], n: int) -> float:
    """Different n-grams divided by all n-grams: 1 when nothing repeats, near 0 for a loop. (Li et al., 2016.)

    A text shorter than n has no n-gram: ValueError.
    """
    n = whole_number(n, "n", 1)
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    if not grams:
        raise ValueError(f"{len(tokens)} tokens hold no run of {n}")
    return len(set(grams)) / len(grams)


def distinct_n_of_all(texts: Sequence[Sequence[int]], n: int) -> float:
    """Distinct-n over several texts together: low when the texts resemble each other. No n-gram at all: ValueError."""
    n = whole_number(n, "n", 1)
    grams = [tuple(text[i : i + n]) for text in texts for i in range(len(text) - n + 1)]
    if not grams:
        raise ValueError(f"no text holds a run of {n} tokens")
    return len(set(grams)) / len(grams)


def chi_square(counts: Sequence[int], probs: Sequence[float]) -> tuple[float, int]:
    """Pearson's statistic of drawn counts against probabilities, and its degrees of freedom.

    Tokens that are expected fewer than 5 times are put together, as the test needs. A token of probability 0 that was
    drawn all the same gives infinity. Lists of different lengths, or no draws, raise ValueError.
    """
    n = sum(counts)
    if len(counts) != len(probs) or n == 0:
        raise ValueError(f"need one count for each probability and at least one draw, got {len(counts)}, {len(probs)}")
    if any(count and not p for count, p in zip(counts, probs, strict=True)):
        return math.inf, 0
    pairs = [(float(count), n * float(p)) for count, p in zip(counts, probs, strict=True) if p]
    rare = [pair for pair in pairs if pair[1] < 5]
    cells = [pair for pair in pairs if pair[1] >= 5]
    if rare:
        cells.append((sum(count for count, _ in rare), sum(expected for _, expected in rare)))
    return sum((count - expected) ** 2 / expected for count, expected in cells), len(cells) - 1


def chi_square_limit(degrees: int, deviations: float = 4.75) -> float:
    """What a chi-square statistic stays below, but for about one honest sample in a million (3.09: in 1,000).

    Wilson and Hilferty's approximation (1931): the cube root of chi-square / degrees is nearly normal.
    """
    if degrees < 1:
        return 0.0
    return degrees * (1 - 2 / (9 * degrees) + deviations * math.sqrt(2 / (9 * degrees))) ** 3


def _vector(values: Sequence[float] | torch.Tensor, name: str) -> torch.Tensor:
    """A flat, non-empty list or tensor as float64 (vocab,)."""
    vector = torch.as_tensor(values, dtype=torch.float64)
    if vector.dim() != 1 or vector.numel() == 0:
        raise ValueError(f"{name} must be a flat list with at least one number, got shape {tuple(vector.shape)}")
    return vector
