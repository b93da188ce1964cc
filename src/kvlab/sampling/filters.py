"""Temperature, and the filters that cut the tail of unlikely tokens: top-k, top-p and min-p.

All functions take the logits of one position, shape (vocab,), leave them unchanged, and keep their dtype.
A filter returns logits with -inf at every token that it removes; softmax then gives those tokens probability 0
and scales the rest to sum to 1. The rules are those of transformers 5.24 (`generation/logits_process.py`) and of
the papers named below; what each function does with ties is said in its docstring.
"""

from __future__ import annotations

import torch

from kvlab.sampling._checks import check_logits, real_number, whole_number

REMOVED = float("-inf")


def probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Softmax of logits (vocab,), computed in float64 so that a running sum over a large vocabulary stays exact.

    Apple's GPUs (mps) have no float64; there it is float32.
    """
    return torch.softmax(logits, dim=-1, dtype=torch.float32 if logits.device.type == "mps" else torch.float64)


def apply_temperature(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Divide logits (vocab,) by `temperature` >= 0, up to a constant that softmax ignores.

    Below 1 the distribution gets sharper, above 1 flatter. Temperature 0 is the limit: only the first largest logit
    stays, all others become -inf. (Dividing by 0 would give inf and nan instead.) Negative values raise ValueError.
    """
    check_logits(logits)
    temperature = real_number(temperature, "temperature")
    if temperature < 0:
        raise ValueError(f"temperature must be 0 (greedy) or positive, got {temperature}")
    if temperature == 0:
        greedy = torch.full_like(logits, REMOVED)
        best = logits.argmax()  # torch gives the first of several equal maxima
        greedy[best] = logits[best]
        return greedy
    # Subtracting the maximum first keeps a tiny temperature from overflowing to inf - inf = nan.
    wide = logits.to(torch.float32 if logits.device.type == "mps" else torch.float64)
    return ((wide - wide.max()) / temperature).to(logits.dtype)


def temperature_probs(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Probabilities softmax(logits / temperature), shape (vocab,), sum 1.

    Temperature 0 gives a one-hot at the first argmax; a negative temperature raises ValueError.
    """
    return probabilities(apply_temperature(logits, temperature)).to(logits.dtype)


def top_k_filter(logits: torch.Tensor, k: int) -> torch.Tensor:
    """Keep the `k` largest logits and every token tied with the k-th of them; k >= vocab keeps all.

    k < 1 raises ValueError. The order of the vocabulary never decides who stays, so more than k tokens can.
    (Fan, Lewis and Dauphin, 2018, arXiv 1805.04833.)
    """
    check_logits(logits)
    k = min(whole_number(k, "k", 1), logits.numel())
    return logits.masked_fill(logits < kth_largest(logits, k), REMOVED)


def kth_largest(logits: torch.Tensor, k: int) -> torch.Tensor:
    """The k-th largest value of (vocab,), as a scalar tensor; 1 <= k <= vocab."""
    return logits.topk(k).values[-1]


def top_p_filter(logits: torch.Tensor, p: float) -> torch.Tensor:
    """Keep the smallest set of most likely tokens whose probabilities sum to at least `p`, 0 < p <= 1.

    The token that carries the sum across p belongs to the set, so at least one token always stays. Of tokens tied at
    the edge only as many stay as are needed: here the ones with the smallest ids. p = 1 keeps every token, also those
    whose probability is too small to move the sum. p outside (0, 1] raises ValueError.
    (Nucleus sampling: Holtzman et al., 2020, arXiv 1904.09751, equation 2.)
    """
    check_logits(logits)
    p = real_number(p, "p")
    if not 0 < p <= 1:
        raise ValueError(f"p must be above 0 and at most 1, got {p}")
    if p == 1:
        return logits.clone()
    order = logits.argsort(descending=True, stable=True)
    size = nucleus_size(probabilities(logits[order]), p)
    kept = order[:size]
    filtered = torch.full_like(logits, REMOVED)
    filtered[kept] = logits[kept]
    return filtered


def nucleus_size(sorted_probs: torch.Tensor, p: float) -> int:
    """How many of the falling probabilities (vocab,) it takes until their sum reaches `p`; at least 1."""
    still_short = sorted_probs.cumsum(0) < p  # True while the sum up to here has not reached p
    return min(int(still_short.sum()) + 1, sorted_probs.numel())  # + 1: the token that crosses p


def min_p_filter(logits: torch.Tensor, min_p: float) -> torch.Tensor:
    """Keep tokens with probability >= `min_p` times the largest probability, 0 <= min_p <= 1.

    0 keeps all, 1 keeps all tied maxima. Outside [0, 1] raises ValueError. (Nguyen et al., 2024, arXiv 2407.01082.)
    """
    check_logits(logits)
    min_p = real_number(min_p, "min_p")
    if not 0 <= min_p <= 1:
        raise ValueError(f"min_p must lie between 0 and 1, got {min_p}")
    probs = probabilities(logits)
    return logits.masked_fill(probs < min_p * probs.max(), REMOVED)
