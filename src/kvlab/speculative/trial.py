"""Does a rule keep the target's distribution? Many short continuations of one prompt, counted instead of generated.

With a small vocabulary few texts are possible, and sequences that hold the same text differ in nothing that matters.
So each text is worked out once and only the number of sequences that stand there is kept: the counts are exactly those
of `n` independent runs, at a cost that does not depend on `n`. The rounds are those of `speculative_generate`, without
the caches: a cache is stood for by the tokens that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from kvlab import sampling
from kvlab.config import ModelConfig
from kvlab.loading import random_model
from kvlab.model import Llama
from kvlab.speculative import loop, rule
from kvlab.validate import whole

Text = tuple[int, ...]
Verify = Callable[[list[int], torch.Tensor, torch.Tensor, list[float]], tuple[int, torch.Tensor]]
Split = Callable[[Any, np.ndarray], np.ndarray]
MOST = 10**5  # continuations that are still worked out one by one


def tiny_pair(vocab_size: int = 4, seed: int = 5, sharpness: float = 30.0) -> tuple[Llama, Llama]:
    """A target of two layers and a draft of one, random, in float64, so small that all their texts can be counted.

    sharpness: what the embedding table is multiplied by; the logits of fresh random weights are all nearly equal.
    """
    size = whole("vocab_size", vocab_size, least=2)
    pair = []
    for layers in (2, 1):
        config = ModelConfig(
            vocab_size=size, n_layers=layers, d_model=8, n_heads=2, n_kv_heads=1, d_head=4, d_ff=16, max_len=64
        )
        model = random_model(config, "cpu", torch.float64, seed=seed + 2 - layers)
        model.model.embed_tokens.weight.data *= sharpness
        pair.append(model)
    return pair[0], pair[1]


class Held:
    """What the target has in its cache: a list of tokens, with a cache's `length` and `truncate`."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)

    @property
    def length(self) -> int:
        return len(self.tokens)

    def truncate(self, length: int) -> None:
        del self.tokens[length:]


@torch.no_grad()
def plain_probs(
    model: Any, prompt: Sequence[int], length: int, settings: sampling.SamplingSettings | None = None
) -> np.ndarray:
    """Exact probabilities of all V^length continuations of `prompt` by plain decoding, float64, in order of their ids."""
    trial = _Trial(model, model, prompt, length, 1, settings)
    weights: dict[Text, float] = {(): 1.0}
    for _ in range(length):
        weights = {
            (*text, token): weight * float(p)
            for text, weight in weights.items()
            for token, p in enumerate(trial.target_row((*trial.prompt, *text), text))
            if weight * float(p) > 0
        }
    return trial.table(weights)


@torch.no_grad()
def speculative_probs(
    model: Any,
    draft: Any,
    prompt: Sequence[int],
    length: int,
    k: int,
    settings: sampling.SamplingSettings | None = None,
    draft_settings: sampling.SamplingSettings | None = None,
    bonus: bool = True,
    verify: Verify | None = None,
) -> np.ndarray:
    """Exact probabilities of all V^length continuations by speculative decoding, (V^length,), in order of their ids.

    model, draft: models of one small vocabulary; settings: SamplingSettings of both, draft_settings another of the
    draft; verify: a function like `verify_draft`, which it is by default. With a right rule these are `plain_probs`.
    """
    trial = _Trial(model, draft, prompt, length, k, settings, draft_settings, bonus, verify)
    return trial.table(trial.run(1.0, lambda weight, probs: weight * probs))


@torch.no_grad()
def speculative_counts(
    model: Any,
    draft: Any,
    prompt: Sequence[int],
    length: int,
    k: int,
    n: int = 200_000,
    settings: sampling.SamplingSettings | None = None,
    draft_settings: sampling.SamplingSettings | None = None,
    bonus: bool = True,
    verify: Verify | None = None,
    seed: int = 0,
) -> np.ndarray:
    """How often each of the V^length continuations came in `n` sampled runs. Other arguments as `speculative_probs`."""
    trial = _Trial(model, draft, prompt, length, k, settings, draft_settings, bonus, verify)
    random = np.random.default_rng(seed)
    return trial.table(trial.run(whole("n", n, least=1), random.multinomial))


class _Trial:
    """The texts that can come, and how many sequences (or what share of them) go from one to the next."""

    def __init__(
        self,
        model: Any,
        draft: Any,
        prompt: Sequence[int],
        length: int,
        k: int,
        settings: sampling.SamplingSettings | None = None,
        draft_settings: sampling.SamplingSettings | None = None,
        bonus: bool = True,
        verify: Verify | None = None,
    ) -> None:
        self.prompt, self.length = tuple(int(i) for i in prompt), whole("length", length, least=1)
        self.k, self.bonus, self.verify = whole("k", k, least=1), bonus, verify or rule.verify_draft
        self.settings = settings or sampling.SamplingSettings()
        self.draft_settings = draft_settings or self.settings
        self.model, self.draft, self.size = model, draft, model.config.vocab_size
        if not self.prompt:
            raise ValueError("the prompt is empty: a model needs at least one token to go on from")
        if draft.config.vocab_size != self.size:
            raise ValueError(f"the draft has {draft.config.vocab_size} tokens and the target {self.size}")
        if self.size**self.length > MOST:
            raise ValueError(
                f"{self.size}^{self.length} continuations are too many to count: take a smaller vocabulary or length"
            )
        self._logits: dict[tuple[bool, Text], torch.Tensor] = {}

    def run(self, start: Any, split: Split) -> dict[Text, Any]:
        """Weight of each finished text. `split` deals a weight out to the tokens of a distribution."""
        states: list[dict[tuple[Text, Text], Any]] = [{} for _ in range(self.length + 1)]
        states[0][(), self.prompt[:-1]] = start
        for done in range(self.length):
            for (text, held), weight in states[done].items():
                for new, now_held, part in self.round(text, held, weight, split):
                    key = ((*text, *new), now_held)
                    bucket = states[len(key[0])]
                    bucket[key] = bucket.get(key, 0) + part
        finished: dict[Text, Any] = {}
        for (text, _), weight in states[self.length].items():
            finished[text] = finished.get(text, 0) + weight
        return finished

    def round(self, text: Text, held: Text, weight: Any, split: Split) -> list[tuple[Text, Text, Any]]:
        """(new tokens, what the target holds after them, weight) for every way in which a round can go."""
        outcomes: list[tuple[Text, Text, Any]] = []
        wanted = min(self.k, self.length - len(text) - 1)
        for tokens, q, part in self.drafts(text, weight, wanted, split):
            pushed = (*held, (*self.prompt, *text)[-1])
            rows = [self.target_row((*pushed, *tokens[:i]), (*text, *tokens[:i])) for i in range(wanted + 1)]
            p, cache = np.stack(rows), Held((*pushed, *tokens))
            for accepted, next_probs, stopped in self.stops(tokens, q, p, part, split):
                if not self.bonus and accepted == wanted > 0:
                    outcomes.append((tokens, self.cut(cache, len(text) + accepted), stopped))
                    continue
                for token, share in enumerate(split(stopped, next_probs)):
                    if share:
                        new = (*tokens[:accepted], token)
                        outcomes.append((new, self.cut(cache, len(text) + len(new)), share))
        return outcomes

    def cut(self, cache: Held, n_new: int) -> Text:
        """What the target still holds when the answer has `n_new` tokens; the last of them is not pushed yet."""
        copy = Held(cache.tokens)
        loop.roll_back(copy, len(self.prompt) + n_new - 1)
        return tuple(copy.tokens)

    def drafts(self, text: Text, weight: Any, wanted: int, split: Split) -> list[tuple[Text, np.ndarray, Any]]:
        """(draft tokens, the q that the rule is told, weight) for all drafts of `wanted` tokens."""
        found: list[tuple[Text, list[np.ndarray], Any]] = [((), [], weight)]
        for _ in range(wanted):
            longer = []
            for tokens, told, part in found:
                context = (*self.prompt, *text, *tokens)
                logits = self.logits(True, context)
                drawn_from, q = rule.draft_distribution(logits, self.draft_settings, context, len(self.prompt))
                for token, share in enumerate(split(part, _normal(drawn_from))):
                    if share:
                        longer.append(((*tokens, token), [*told, _normal(q)], share))
            found = longer
        return [(tokens, np.array(told).reshape(wanted, self.size), part) for tokens, told, part in found]

    def stops(
        self, tokens: Text, q: np.ndarray, p: np.ndarray, weight: Any, split: Split
    ) -> list[tuple[int, np.ndarray, Any]]:
        """(accepted tokens, distribution of the next one, weight) for every place where a round can stop."""
        outcomes, rows = [], (list(tokens), torch.from_numpy(q), torch.from_numpy(p))
        for i in range(len(tokens)):
            chance = self.chance(rows, i)
            stay, leave = split(weight, np.array([chance, 1 - chance]))
            if leave:
                outcomes.append((i, _normal(self.verify(*rows, _uniforms(i, 1.0, len(tokens)))[1]), leave))
            weight = stay
            if not weight:
                return outcomes
        outcomes.append((len(tokens), _normal(self.verify(*rows, [0.0] * len(tokens))[1]), weight))
        return outcomes

    def chance(self, rows: tuple[list[int], torch.Tensor, torch.Tensor], i: int) -> float:
        """The uniform number up to which the rule keeps token `i`, found by halving: any rule can be asked so."""

        def stays(uniform: float) -> bool:
            return int(self.verify(*rows, _uniforms(i, uniform, len(rows[0])))[0]) > i

        if not stays(0.0):
            return 0.0
        low, high = 0.0, 1.0
        if stays(float(np.nextafter(1.0, 0.0))):
            return 1.0
        for _ in range(45):
            middle = (low + high) / 2
            low, high = (middle, high) if stays(middle) else (low, middle)
        return high

    def target_row(self, pushed: Text, text: Text) -> np.ndarray:
        """p after the tokens that were pushed into the target, for an answer that is `text` so far."""
        logits = self.logits(False, pushed)
        context = (*self.prompt, *text)
        return _normal(sampling.next_token_probs(logits, self.settings, context, len(self.prompt)))

    def logits(self, of_draft: bool, tokens: Text) -> torch.Tensor:
        key = (of_draft, tokens)
        if key not in self._logits:
            self._logits[key] = (self.draft if of_draft else self.model)(torch.tensor(tokens))[-1]
        return self._logits[key]

    def table(self, weights: dict[Text, Any]) -> np.ndarray:
        """Weights in order of the texts' ids, the first token counting most, (V^length,)."""
        kind = np.float64 if any(isinstance(w, float) for w in weights.values()) else np.int64
        flat = np.zeros(self.size**self.length, dtype=kind)
        for text, weight in weights.items():
            flat[np.ravel_multi_index(text, (self.size,) * self.length)] = weight
        return flat


def _uniforms(i: int, uniform: float, k: int) -> list[float]:
    """Numbers that keep every token before `i`, decide about it by `uniform`, and do not matter behind."""
    return [0.0] * i + [uniform] + [0.0] * (k - i - 1)


def _normal(probs: torch.Tensor) -> np.ndarray:
    exact = np.asarray(probs, dtype=np.float64)
    return exact / exact.sum()
