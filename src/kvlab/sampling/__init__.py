"""From logits to the next token: temperature, filters, penalties, the draw, and beam search.

`filters`, `penalties`, `beam` and `sampler` hold the code, `measures` describes distributions and texts in numbers;
the names below are the public ones.
"""

from kvlab.sampling.beam import beam_search
from kvlab.sampling.filters import apply_temperature, min_p_filter, temperature_probs, top_k_filter, top_p_filter
from kvlab.sampling.measures import distinct_n, distinct_n_of_all, entropy, entropy_at
from kvlab.sampling.penalties import apply_frequency_presence_penalty, apply_logit_bias, apply_repetition_penalty
from kvlab.sampling.sampler import (
    ORDERS,
    LogitsProcessor,
    SamplingSettings,
    draw,
    next_token_probs,
    sample,
    stages,
)

__all__ = [
    "ORDERS",
    "LogitsProcessor",
    "SamplingSettings",
    "apply_frequency_presence_penalty",
    "apply_logit_bias",
    "apply_repetition_penalty",
    "apply_temperature",
    "beam_search",
    "distinct_n",
    "distinct_n_of_all",
    "draw",
    "entropy",
    "entropy_at",
    "min_p_filter",
    "next_token_probs",
    "sample",
    "stages",
    "temperature_probs",
    "top_k_filter",
    "top_p_filter",
]
