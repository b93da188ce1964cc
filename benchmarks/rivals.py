"""Three ways to decode with the same weights: this course's loop, `transformers`' generate, a bare loop over its model.

Each gives its tokens with the moment at which each was known, so that setting a call up can be told from its steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch

from kvlab.cache import PreallocatedCache
from kvlab.generate import decode_step, prefill
from kvlab.model import Llama

KVLAB, GENERATE, LOOP = "kvlab", "transformers generate", "transformers loop"


@dataclass(frozen=True)
class Decoded:
    """Tokens of one run and the moment each was known. The first also pays for starting up; the rate leaves it out."""

    tokens: list[int]
    times: list[float]

    @property
    def tokens_per_s(self) -> float:
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])


class Stopwatch:
    """A streamer for `generate` that only notes when each token arrives."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.times: list[float] = []
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        if self._prompt_seen:
            self.tokens.append(int(value))
            self.times.append(time.perf_counter())
        self._prompt_seen = True

    def end(self) -> None:
        pass


def transformers_twin(model: Llama) -> Any:
    """LlamaForCausalLM with the weights of `model`, laid out as the library does (shared where that agrees)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device("meta"):
        twin = LlamaForCausalLM(LlamaConfig(**model.config.to_hf()))
    twin.load_state_dict({name: w.contiguous() for name, w in model.state_dict().items()}, assign=True)
    twin.tie_weights()
    # The rotary table is no parameter and still lies on the meta device: build it again on the real one.
    twin.model.rotary_emb = type(twin.model.rotary_emb)(twin.config)
    twin.generation_config.eos_token_id = None
    twin.generation_config.pad_token_id = 0
    return twin.eval()


@torch.no_grad()
def decode_runs(model: Llama, twin: Any, ids: Sequence[int], steps: int) -> dict[str, Callable[[], Decoded]]:
    """The three ways by name, each ready to decode `steps` tokens after the prompt `ids`, again and again.

    Each fills its cache once, here, with all of the prompt but the last token. A run goes back to that point, so that
    it costs no prefill and many short runs can take turns.
    """
    past = list(ids[:-1])
    ours = PreallocatedCache(model.config, len(ids) + steps, dtype=model.dtype, device=model.device)
    prefill(model, past, ours)
    theirs = [DynamicCacheOf(twin, past) for _ in range(2)]
    return {
        KVLAB: lambda: decode_kvlab(model, ours, ids, steps),
        GENERATE: lambda: decode_generate(twin, theirs[0].rewound(), ids, steps),
        LOOP: lambda: decode_loop(twin, theirs[1].rewound(), ids, steps),
    }


class DynamicCacheOf:
    """transformers' default cache, filled with a prompt."""

    def __init__(self, twin: Any, past: list[int]) -> None:
        from transformers import DynamicCache

        # Newer releases have renamed the argument, and warn about the older name.
        self.keyword = "cache" if "cache" in signature(twin.forward).parameters else "past_key_values"
        self._cache = DynamicCache()
        self._length = len(past)
        twin(torch.tensor([past]), **{self.keyword: self._cache}, use_cache=True, logits_to_keep=1)

    def rewound(self) -> dict[str, Any]:
        """The cache as a keyword argument of the model, back at the end of the prompt."""
        surplus = self._cache.get_seq_length() - self._length
        if surplus > 0:
            self._cache.crop(-surplus)
        return {self.keyword: self._cache}


@torch.no_grad()
def decode_kvlab(model: Llama, cache: PreallocatedCache, ids: Sequence[int], steps: int) -> Decoded:
    """The steps of `generate_cached`: one token in, the largest logit out."""
    cache.truncate(len(ids) - 1)
    token, tokens, times = ids[-1], [], []
    for _ in range(steps + 1):
        token = int(decode_step(model, token, cache).argmax())
        tokens.append(token)
        times.append(time.perf_counter())
    return Decoded(tokens, times)


@torch.no_grad()
def decode_generate(twin: Any, cache: dict[str, Any], ids: Sequence[int], steps: int) -> Decoded:
    """transformers' own `generate`: greedy, with its default attention."""
    watch = Stopwatch()
    prompt = torch.tensor([list(ids)])
    twin.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=steps + 1,
        do_sample=False,
        use_cache=True,
        streamer=watch,
        **cache,
    )
    return Decoded(watch.tokens, watch.times)


@torch.no_grad()
def decode_loop(twin: Any, cache: dict[str, Any], ids: Sequence[int], steps: int) -> Decoded:
    """The least that can be done with transformers' model: a loop over its forward pass, without `generate`."""
    token, tokens, times = ids[-1], [], []
    for _ in range(steps + 1):
        logits = twin(torch.tensor([[token]]), **cache, use_cache=True, logits_to_keep=1).logits[0, -1]
        token = int(logits.argmax())
        tokens.append(token)
        times.append(time.perf_counter())
    return Decoded(tokens, times)
