"""Changes to logits that depend on the text so far, or on the caller's wish: penalties and logit bias.

All functions take logits of shape (vocab,), leave them unchanged, and keep their dtype.
`context_ids` is a flat list or LongTensor of token ids, may be empty, and raises ValueError for an unknown id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from kvlab.sampling._checks import check_logits, real_number, token_ids, whole_number


def apply_repetition_penalty(
    logits: torch.Tensor, context_ids: Sequence[int] | torch.Tensor, penalty: float
) -> torch.Tensor:
    """Make tokens of the context less likely: a positive logit is divided by `penalty`, a negative one multiplied.

    Each distinct token counts once, however often it occurred. penalty must be > 0; 1 changes nothing, below 1 it
    encourages repetition. Two things to know: the paper divides every logit (Keskar et al., 2019, arXiv 1909.05858,
    section 4.1), the rule by sign is the one of transformers and vLLM, since dividing a negative logit would raise it;
    and the result changes when a constant is added to all logits, although softmax ignores such a constant.
    """
    check_logits(logits)
    penalty = real_number(penalty, "penalty")
    if penalty <= 0:
        raise ValueError(f"penalty must be above 0 (1 switches it off), got {penalty}")
    seen = distinct(token_ids(context_ids, logits.numel(), logits.device, "context_ids"))
    penalised = logits.clone()
    penalised[seen] = penalise_by_sign(logits[seen], penalty)
    return penalised


def distinct(ids: torch.Tensor) -> torch.Tensor:
    """Each id of a LongTensor once."""
    return ids.unique()


def penalise_by_sign(values: torch.Tensor, penalty: float) -> torch.Tensor:
    """Divide positive values by `penalty`, multiply the others by it."""
    return torch.where(values > 0, values / penalty, values * penalty)


def apply_frequency_presence_penalty(
    logits: torch.Tensor,
    context_ids: Sequence[int] | torch.Tensor,
    frequency_penalty: float = 0.0,
    presence_penalty: float = 0.0,
) -> torch.Tensor:
    """Subtract count x `frequency_penalty` + (count > 0) x `presence_penalty` from the logit of each token.

    `count` is how often the token occurs in `context_ids`. This is the definition in OpenAI's API reference, which
    allows -2 to 2 and counts sampled tokens only; negative penalties encourage repetition.
    """
    check_logits(logits)
    frequency_penalty = real_number(frequency_penalty, "frequency_penalty")
    presence_penalty = real_number(presence_penalty, "presence_penalty")
    ids = token_ids(context_ids, logits.numel(), logits.device, "context_ids")
    counts = torch.bincount(ids, minlength=logits.numel())
    return logits - frequency_penalty * counts.to(logits.dtype) - presence_penalty * (counts > 0).to(logits.dtype)


def apply_logit_bias(logits: torch.Tensor, bias: Mapping[int, float]) -> torch.Tensor:
    """Add `bias[id]` to the logit of each id named, as it is.

    A bias of -100 makes a token practically impossible, not exactly: its probability is multiplied by about 4e-44.
    An id outside the vocabulary raises ValueError.
    """
    check_logits(logits)
    biased = logits.clone()
    for token, value in bias.items():
        index = whole_number(token, "an id in bias", 0)
        if index >= logits.numel():
            raise ValueError(f"bias names id {index}, but ids run from 0 to {logits.numel() - 1}")
        biased[index] += float(value)
    return biased
