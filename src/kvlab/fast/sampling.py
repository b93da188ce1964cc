"""The next token's distribution without sorting the vocabulary: the same numbers as `kvlab.sampling`, from a short list.

A filter keeps few of 128,256 tokens. So the largest few hundred logits are taken first (a partial selection, not a
sort), and the readable functions run on them alone. Where the short list cannot be shown to hold all that the filters
keep, the readable functions run on everything: slower, never different.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from kvlab.sampling import SamplingSettings, filters, next_token_probs, penalties, sample
from kvlab.sampling.sampler import _run_stage
from kvlab.validate import whole

LENGTHS = (256, 8192)  # entries of the short list, tried in turn; a nucleus without top_k can be long


class Candidates(NamedTuple):
    """The tokens that can be drawn, by rising id, and their probabilities in the dtype of the logits."""

    ids: torch.Tensor
    probs: torch.Tensor


def next_token(
    logits: torch.Tensor,
    settings: SamplingSettings,
    context_ids: Sequence[int] | torch.Tensor = (),
    n_prompt: int = 0,
    generator: torch.Generator | None = None,
) -> int:
    """Draw a token: the one that `sample(next_token_probs(...), generator)` draws with the same generator."""
    found = candidates(logits, settings, context_ids, n_prompt)
    return int(found.ids[sample(found.probs, generator)])


def candidates(
    logits: torch.Tensor,
    settings: SamplingSettings,
    context_ids: Sequence[int] | torch.Tensor = (),
    n_prompt: int = 0,
) -> Candidates:
    """`next_token_probs` as a list of its tokens; arguments and errors as there."""
    context = context_ids if isinstance(context_ids, torch.Tensor) else as_ids(context_ids)
    changed = penalised(logits, settings, context, n_prompt)
    short = next((s for length in LENGTHS if (s := shortlist(changed, settings, length))), None)
    if short is None:
        probs = next_token_probs(logits, settings, context, n_prompt)
        ids = probs.nonzero()[:, 0]
        return Candidates(ids, probs[ids])
    ids, values = short
    probs = filters.temperature_probs(values, 1.0)
    if not bool(torch.isfinite(probs).all()):
        raise ValueError("the logits hold NaN or inf, or every token is removed, so there is nothing to sample from")
    kept = probs > 0
    return Candidates(ids[kept], probs[kept])


def as_ids(ids: Sequence[int]) -> torch.Tensor:
    """A list of ids as a tensor in one step; a list of something else is left to the readable check."""
    try:
        return torch.tensor(ids, dtype=torch.long) if all(type(i) is int for i in ids) else ids  # type: ignore[return-value]
    except RuntimeError:  # a number beyond 64 bits
        return ids  # type: ignore[return-value]


def penalised(logits: torch.Tensor, settings: SamplingSettings, context: torch.Tensor, n_prompt: int) -> torch.Tensor:
    """Logits after bias and penalties: the stages before the four that a short list can do."""
    answer = context[whole("n_prompt", n_prompt) :]
    if settings.logit_bias:
        logits = penalties.apply_logit_bias(logits, settings.logit_bias)
    if settings.repetition_penalty != 1:
        logits = penalties.apply_repetition_penalty(logits, context, settings.repetition_penalty)
    if settings.frequency_penalty != 0 or settings.presence_penalty != 0:
        logits = penalties.apply_frequency_presence_penalty(
            logits, answer, settings.frequency_penalty, settings.presence_penalty
        )
    return logits


def shortlist(
    logits: torch.Tensor, settings: SamplingSettings, length: int
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Ids, rising, and their logits after temperature and filters, -inf where removed; None if it must be longer."""
    if logits.dim() != 1 or not logits.is_floating_point() or not (settings.top_k or 0) < length < logits.numel():
        return None
    if settings.processors:
        return None  # the caller's own functions see every logit, so the readable way runs them
    ids = logits.topk(length, sorted=False).indices.sort().values  # rising ids: that is how the filters break ties
    values = logits[ids]
    complete = False  # True once every token outside the list is removed
    for name in settings.stage_order():
        if name == "temperature" and settings.temperature == 0:
            return None  # one argmax, which the readable way does as well
        before = values
        changed = _run_stage(name, values, settings) if complete or name in ("temperature", "top_k") else None
        if changed is not None:
            values = changed
        if not complete:
            if name == "top_k" and settings.top_k is not None:
                edge = values[values > filters.REMOVED].min()
            elif name == "top_p" and settings.top_p != 1:
                values, edge = nucleus(before, logits, settings)
            elif name == "min_p" and settings.min_p != 0:
                values, edge = likely(before, settings.min_p)
            else:
                continue
            # What lies outside is at most the smallest inside. If that is removed and not even a tie, so is all outside.
            if not edge > before.min():
                return None
            complete = True
    return (ids, values) if complete else None


def nucleus(
    values: torch.Tensor, logits: torch.Tensor, settings: SamplingSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """top_p of a list that is not complete: probabilities are shares of the sum over all tokens."""
    every = logits
    if settings.temperature != 1 and "temperature" in before_top_p(settings):
        every = filters.apply_temperature(logits, settings.temperature)
    largest = values.max().double()
    total = (every.double() - largest).exp_().sum()
    order = values.argsort(descending=True, stable=True)
    probs = (values[order].double() - largest).exp() / total
    kept = order[: filters.nucleus_size(probs, settings.top_p)]
    filtered = torch.full_like(values, filters.REMOVED)
    filtered[kept] = values[kept]
    return filtered, values[kept[-1]]


def before_top_p(settings: SamplingSettings) -> tuple[str, ...]:
    order = settings.stage_order()
    return order[: order.index("top_p")]


def likely(values: torch.Tensor, min_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """min_p of a list that is not complete: the sum over all tokens cancels, only the ratio to the largest counts."""
    ratio = (values.double() - values.max().double()).exp()
    kept = ratio >= min_p
    return values.masked_fill(~kept, filters.REMOVED), values[kept].min()
