"""Who proposes the draft tokens: another model, or the target's own first layers. `lookup` has those without a model.

A draft looks at the text so far and catches up by itself, so the loop never has to tell it what was rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import torch

from kvlab import sampling
from kvlab.cache import PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.generate import GREEDY
from kvlab.model import Llama
from kvlab.speculative import rule
from kvlab.validate import whole


class Proposal(NamedTuple):
    """Draft tokens, at most as many as were asked for, and what each was drawn from, (n, V).

    `probs` is None in plain greedy decoding, where the target compares tokens and needs no probabilities.
    """

    tokens: list[int]
    probs: torch.Tensor | None


class Draft(Protocol):
    """What `speculative_generate` needs of a draft."""

    passes: int  # forward passes since `begin`

    def begin(self, config: ModelConfig, max_len: int) -> None:
        """Forget the last text. ValueError unless the draft fits a target of this shape and texts of `max_len`."""
        ...

    def propose(
        self,
        context: Sequence[int],
        k: int,
        settings: sampling.SamplingSettings,
        n_prompt: int,
        generator: torch.Generator,
    ) -> Proposal:
        """Up to `k` tokens to follow `context`, whose first `n_prompt` are the prompt."""
        ...


class ModelDraft:
    """A model with a cache of its own. `model`: a Llama or a FastLlama with the target's vocabulary.

    settings: sampling settings of the draft; None takes those of the target. Other settings cost acceptance, not
    correctness, since the rule is told what the tokens were really drawn from.
    """

    def __init__(self, model: Any, settings: sampling.SamplingSettings | None = None) -> None:
        self.model, self.settings = model, settings
        self.passes = 0
        self._held: list[int] = []  # the tokens whose keys and values the cache holds

    def begin(self, config: ModelConfig, max_len: int) -> None:
        check_vocabulary(self.model.config.vocab_size, config.vocab_size)
        if max_len > self.model.config.max_len:
            raise ValueError(
                f"the text may grow to {max_len} positions, but the draft's window is {self.model.config.max_len}: "
                f"shorten the prompt or lower max_new"
            )
        self._cache = PreallocatedCache(self.model.config, max_len, dtype=self.model.dtype, device=self.model.device)
        self._held, self.passes = [], 0

    def propose(
        self,
        context: Sequence[int],
        k: int,
        settings: sampling.SamplingSettings,
        n_prompt: int,
        generator: torch.Generator,
    ) -> Proposal:
        chosen = self.settings or settings
        same = common_prefix(self._held, context)
        self._cache.truncate(same)  # what follows was rejected, or never seen
        del self._held[same:]
        new, tokens, told = list(context[same:]), list[int](), list[torch.Tensor]()
        while len(tokens) < k:
            logits = self._forward(new)
            if is_greedy(chosen) and is_greedy(settings):
                token = int(logits.argmax())
            else:
                drawn_from, q = rule.draft_distribution(logits, chosen, [*context, *tokens], n_prompt)
                token = sampling.sample(drawn_from, generator)
                told.append(q)
            tokens.append(token)
            new = [token]
        return Proposal(tokens, torch.stack(told) if told else None)

    def _forward(self, new: list[int]) -> torch.Tensor:
        ids = torch.tensor(new, dtype=torch.long, device=self.model.device)
        logits = self.model(ids, self._cache, last_only=True)[-1]
        self._held += new
        self.passes += 1
        return logits


class EarlyExit(ModelDraft):
    """The target's own first `n_layers`, then its last norm and its output head: no second model to train or store.

    It shares the weights. Real systems train for it, and share the cache of those layers too (LayerSkip, Elhoushi et
    al., 2024, arXiv 2404.16710); here the draft keeps a cache of its own. Only for a Llama.
    """

    def __init__(self, model: Llama, n_layers: int, settings: sampling.SamplingSettings | None = None) -> None:
        if not isinstance(model, Llama):
            raise ValueError(f"an early exit needs the layers of a kvlab Llama, got a {type(model).__name__}")
        n_layers = whole("n_layers", n_layers, least=1)
        if n_layers >= model.config.n_layers:
            raise ValueError(f"an early exit leaves layers out: n_layers must be below {model.config.n_layers}")
        with torch.device("meta"):
            short = Llama(replace(model.config, n_layers=n_layers))
        short.model.embed_tokens, short.model.norm, short.lm_head = (
            model.model.embed_tokens,
            model.model.norm,
            model.lm_head,
        )
        for i in range(n_layers):
            short.model.layers[i] = model.model.layers[i]
        short.cos, short.sin, short.tokenizer = model.cos, model.sin, model.tokenizer
        super().__init__(short.eval(), settings)
        self.n_layers = n_layers


def as_draft(draft: Any) -> Draft:
    """A draft as it is, or a model wrapped in `ModelDraft`. Anything else raises ValueError."""
    if hasattr(draft, "propose") and hasattr(draft, "begin"):
        return draft
    if hasattr(draft, "layout") and hasattr(draft, "config") and callable(draft):
        return ModelDraft(draft)
    raise ValueError(
        f"draft must be a model, ModelDraft, EarlyExit, NGramDraft or PromptLookup, got {draft!r:.60}"
    ) from None


def check_vocabulary(draft_size: int, target_size: int) -> None:
    """ValueError unless both have one vocabulary: the rule compares the two probabilities of one token id."""
    if draft_size != target_size:
        raise ValueError(
            f"draft and target must share one vocabulary, but the draft has {draft_size} tokens and the target "
            f"{target_size}: choose a draft of the same family"
        )


def common_prefix(held: Sequence[int], context: Sequence[int]) -> int:
    """How many of the held tokens are those of the text; always leaves a token of the text to push."""
    limit = min(len(held), len(context) - 1)
    return next((i for i in range(limit) if held[i] != context[i]), limit)


def is_greedy(settings: sampling.SamplingSettings) -> bool:
    """Plain greedy decoding: the argmax and nothing else."""
    return settings.temperature == 0 and replace(settings, seed=None, order="transformers") == GREEDY
