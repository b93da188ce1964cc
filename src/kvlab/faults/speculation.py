"""Speculative decoding and tiled attention."""

from typing import Any

from kvlab.faults.plant import Fault


def _resampled_from_target(right: Any) -> Any:
    return lambda p, q: p


def _draft_probs_unfiltered(right: Any) -> Any:
    def draft_distribution(logits: Any, settings: Any, context: Any, n_prompt: int) -> Any:
        from kvlab.sampling import temperature_probs

        drawn_from, _ = right(logits, settings, context, n_prompt)
        return drawn_from, temperature_probs(logits, settings.temperature)

    return draft_distribution


def _bonus_from_draft(right: Any) -> Any:
    return lambda draft_probs, target_probs: draft_probs[-1] if len(draft_probs) else right(draft_probs, target_probs)


def _target_cache_kept(right: Any) -> Any:
    return lambda cache, length: None


def _running_max_not_rescaled(right: Any) -> Any:
    def rescaling(largest: Any, new_largest: Any) -> Any:
        import torch

        return torch.ones_like(new_largest)

    return rescaling


def _one_scale_for_all(right: Any) -> Any:
    def _round(weights: Any, limit: int) -> Any:
        codes, scales = right(weights.reshape(1, -1), limit)
        return codes.reshape(weights.shape), scales.repeat(len(weights), axis=0)

    return _round


FAULTS = (
    Fault(
        "resampled_from_target",
        "after a rejection the next token is drawn from the target's row itself",
        "kvlab.speculative.rule:residual_probs",
        _resampled_from_target,
    ),
    Fault(
        "draft_probs_unfiltered",
        "draft tokens are drawn with filters, but the rule is told the probabilities without them",
        "kvlab.speculative.rule:draft_distribution",
        _draft_probs_unfiltered,
    ),
    Fault(
        "bonus_from_draft",
        "when all draft tokens stay, the next one is drawn from the draft's last row",
        "kvlab.speculative.rule:bonus_probs",
        _bonus_from_draft,
    ),
    Fault(
        "target_cache_kept",
        "the target keeps the keys and values of rejected draft tokens",
        "kvlab.speculative.loop:roll_back",
        _target_cache_kept,
    ),
    Fault(
        "running_max_not_rescaled",
        "tiled attention does not scale its sums down when a tile brings a larger score",
        "kvlab.tiled:rescaling",
        _running_max_not_rescaled,
    ),
    Fault(
        "one_scale_for_all",
        "all rows of a matrix share one scale",
        "kvlab.quantize:_round",
        _one_scale_for_all,
    ),
)
