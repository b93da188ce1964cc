"""Generation with a draft: propose, verify in one pass of the target, keep what stands, cut both caches back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kvlab import sampling
from kvlab.cache import KVCache, PreallocatedCache, check_fits
from kvlab.generate import GREEDY, Generation, as_tensor, check_settings, prompt_ids, text_stream
from kvlab.ring import RingCache
from kvlab.speculative import rule
from kvlab.speculative.drafts import Draft, Proposal, as_draft, is_greedy
from kvlab.validate import whole


@dataclass
class Speculation(Generation):
    """What `generate_cached` returns, and what speculation did. `seconds` is the whole run, prefill included."""

    history: list[tuple[int, int]] = field(default_factory=list)  # (drafted, accepted) of each round
    target_passes: int = 0  # of the prefill and of each round
    draft_passes: int = 0  # 0 for a draft without a model
    draft_seconds: float = 0.0
    target_seconds: float = 0.0

    @property
    def rounds(self) -> int:
        return len(self.history)

    @property
    def drafted(self) -> int:
        return sum(drafted for drafted, _ in self.history)

    @property
    def accepted(self) -> int:
        return sum(accepted for _, accepted in self.history)

    @property
    def acceptance(self) -> float:
        """Chance that a draft token stays, given that those before it in its round did; nan without any.

        This is what `expected_tokens` takes. accepted / drafted is lower: it counts tokens behind a rejected one too.
        """
        tried = self.accepted + sum(accepted < drafted for drafted, accepted in self.history)
        return self.accepted / tried if tried else float("nan")

    @property
    def tokens_per_round(self) -> float:
        """Tokens gained for each verifying pass of the target; nan without any."""
        return len(self.tokens) / self.rounds if self.rounds else float("nan")


@dataclass(frozen=True)
class AdaptiveK:
    """A draft length that follows success: two more after a round without a rejection, one less after any other.

    The rule of transformers' "heuristic" schedule. Stays between `least` and `most`.
    """

    start: int = 4
    least: int = 1
    most: int = 8

    def __post_init__(self) -> None:
        for name in ("least", "start", "most"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1))
        if not self.least <= self.start <= self.most:
            raise ValueError(f"least <= start <= most must hold, got {self.least}, {self.start} and {self.most}")

    def after(self, k: int, drafted: int, accepted: int) -> int:
        """The next draft length."""
        return min(self.most, k + 2) if accepted == drafted else max(self.least, k - 1)


@torch.no_grad()
def speculative_generate(
    model: Any,
    draft: Any,
    prompt: str | Sequence[int],
    max_new: int = 64,
    k: int | AdaptiveK = 4,
    settings: sampling.SamplingSettings = GREEDY,
    stop: Sequence[str] = (),
    cache: KVCache | None = None,
    ignore_eos: bool = False,
    bonus: bool = True,
) -> Speculation:
    """Generate as `generate_cached` does, several tokens for each pass of `model`, the target.

    draft: a `Draft`, or a model with the target's vocabulary. k: draft tokens for each round, at least 1, or AdaptiveK.
    settings: apply to both distributions, filters and penalties included. Greedy tokens are those of plain decoding
        (in float64); sampled ones follow the same distribution, but a seed gives another text than plain decoding.
    bonus: False leaves out the token that a round without a rejection gives for nothing. Nothing else changes.
    Raises ValueError for K = 0, vocabularies that differ, and whatever `generate_cached` refuses.
    """
    length = k if isinstance(k, AdaptiveK) else AdaptiveK(_k(k), _k(k), _k(k))
    max_new = whole("max_new", max_new)
    ids = prompt_ids(model, prompt, max_new)
    check_settings(model, settings)
    helper, room = as_draft(draft), max(1, len(ids) + max_new - 1)
    if cache is None:
        cache = PreallocatedCache(model.config, room, dtype=model.dtype, device=model.device)
    elif cache.length:
        raise ValueError(
            f"the cache already holds {cache.length} positions of another sequence: truncate it to 0, or make a new one"
        )
    elif isinstance(cache, RingCache) and room > cache.window:
        raise ValueError(
            f"a ring of {cache.window} slots forgets, so rejected tokens cannot be taken back: use another cache"
        )
    elif room > cache.max_len:
        raise ValueError(f"the text may take {room} positions, but the cache has room for {cache.max_len}")
    check_fits(cache, model.layout())
    text = text_stream(model, stop)
    helper.begin(model.config, room)
    return _Run(model, helper, cache, Speculation(ids), settings, text, ignore_eos, bonus).finish(max_new, length)


def _k(k: int) -> int:
    if k == 0 and not isinstance(k, bool):
        raise ValueError(
            "k must be at least 1: with no draft tokens every round is a plain step, as in generate_cached"
        )
    return whole("k", k, least=1)


@dataclass
class _Run:
    """One call: the target with its cache, the draft, and the text so far."""

    model: Any
    draft: Draft
    cache: KVCache
    result: Speculation
    settings: sampling.SamplingSettings
    text: Any
    ignore_eos: bool
    bonus: bool

    def finish(self, max_new: int, length: AdaptiveK) -> Speculation:
        result, generator, k = self.result, self.settings.generator(), length.start
        self.start = time.perf_counter()
        if max_new and len(result.prompt_ids) > 1:
            self.target(result.prompt_ids[:-1], last_only=True)  # the last token is pushed with the first draft
        while len(result.tokens) < max_new and result.stopped_by == "length":
            # A round gives one token more than it drafts, so the last one drafts no more than fits.
            wanted = min(k, max_new - len(result.tokens) - 1)
            proposal = self.propose(wanted, generator) if wanted else Proposal([], None)
            accepted, last = self.verify(proposal, generator)
            result.history.append((len(proposal.tokens), accepted))
            new = proposal.tokens[:accepted]
            if self.bonus or accepted < len(proposal.tokens) or not new:
                new.append(last)
            self.emit(new)
            context = len(result.prompt_ids) + len(result.tokens)
            roll_back(self.cache, context - 1)  # rejected tokens go, and the last token is pushed with the next draft
            if proposal.tokens:
                k = length.after(k, len(proposal.tokens), accepted)
        if result.stopped_by != "stop":
            result.text += self.text.finish()
        result.draft_passes = self.draft.passes
        return result

    def propose(self, k: int, generator: torch.Generator) -> Proposal:
        began = time.perf_counter()
        context = [*self.result.prompt_ids, *self.result.tokens]
        proposal = self.draft.propose(context, k, self.settings, len(self.result.prompt_ids), generator)
        self.result.draft_seconds += time.perf_counter() - began
        return proposal

    def target(self, new: Sequence[int], last_only: bool = False) -> torch.Tensor:
        began = time.perf_counter()
        logits = self.model(as_tensor(self.model, new), self.cache, last_only=last_only)
        self.result.target_passes += 1
        self.result.positions_processed += len(new)
        self.result.target_seconds += time.perf_counter() - began
        return logits

    def verify(self, proposal: Proposal, generator: torch.Generator) -> tuple[int, int]:
        """How many draft tokens stay, and the token that comes after them."""
        context = [*self.result.prompt_ids, *self.result.tokens]
        tokens, n_prompt = proposal.tokens, len(self.result.prompt_ids)
        logits = self.target([context[-1], *tokens])
        if is_greedy(self.settings) and proposal.probs is None:
            values, best = logits.max(-1)
            if not bool(values.isfinite().all()):
                raise ValueError("the logits hold NaN or inf, or every token is removed, so there is no best token")
            choices = best.tolist()
            accepted = next((i for i, token in enumerate(tokens) if token != choices[i]), len(tokens))
            return accepted, choices[accepted]
        rows = [
            sampling.next_token_probs(row, self.settings, [*context, *tokens[:i]], n_prompt)
            for i, row in enumerate(logits)
        ]
        p = torch.stack(rows).to("cpu", torch.float64)
        q = p[:0] if proposal.probs is None else proposal.probs.to(p)
        uniforms = torch.rand(len(tokens), generator=generator, dtype=torch.float64)
        accepted, next_probs = rule.verify_draft(tokens, q, p, uniforms)
        return accepted, sampling.sample(next_probs, generator)

    def emit(self, tokens: Sequence[int]) -> None:
        """Add tokens to the answer until one of them ends it."""
        tokenizer, result = self.model.tokenizer, self.result
        seconds = time.perf_counter() - self.start
        for token in tokens:
            result.tokens.append(token)
            result.token_times.append(seconds)
            if tokenizer is None:
                continue
            result.text += self.text.push(tokenizer.text_bytes(token))
            if self.text.stopped:
                result.stopped_by = "stop"
                return
            if token == tokenizer.eos_id and not self.ignore_eos:
                result.stopped_by = "eos"
                return


def roll_back(cache: Any, length: Any) -> None:
    """Forget the target's keys and values from `length` on: those of rejected tokens must never be seen again."""
    cache.truncate(length)
