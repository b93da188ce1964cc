"""Speculative decoding: a cheap draft proposes tokens, one pass of the target verifies them all.

`rule` holds the arithmetic, `drafts` and `lookup` those who propose, `loop` the generation, `trial` the proof that the
distribution stays what it was. The names below are the public ones.
"""

from kvlab.speculative.drafts import Draft, EarlyExit, ModelDraft, Proposal
from kvlab.speculative.lookup import NGramDraft, NGramTable, PromptLookup
from kvlab.speculative.loop import AdaptiveK, Speculation, speculative_generate
from kvlab.speculative.rule import (
    acceptance_rate,
    best_k,
    break_even,
    expected_tokens,
    round_cost,
    speedup,
    verify_draft,
)
from kvlab.speculative.statistics import ChiSquare, chi_square
from kvlab.speculative.trial import plain_probs, speculative_counts, speculative_probs, tiny_pair

__all__ = [
    "AdaptiveK",
    "ChiSquare",
    "Draft",
    "EarlyExit",
    "ModelDraft",
    "NGramDraft",
    "NGramTable",
    "PromptLookup",
    "Proposal",
    "Speculation",
    "acceptance_rate",
    "best_k",
    "break_even",
    "chi_square",
    "expected_tokens",
    "plain_probs",
    "round_cost",
    "speculative_counts",
    "speculative_generate",
    "speculative_probs",
    "speedup",
    "tiny_pair",
    "verify_draft",
]
