"""The generation loop, twice: recompute everything for every token, or keep K and V and compute only what is new.

Both loops choose tokens in the same way and stop for the same reasons; they differ in the one call that gives the
next logits. Equal greedy tokens are only promised in float64: in lower precision two nearly equal logits may swap.
A caller's own stage between logits and choice is `SamplingSettings(processors=[...])`: functions (ids, logits) -> logits.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from kvlab import sampling
from kvlab.cache import KVCache, PreallocatedCache, check_fits
from kvlab.model import Llama, check_id
from kvlab.streaming import TextStream
from kvlab.tokenizer import as_ids
from kvlab.validate import whole

GREEDY = sampling.SamplingSettings(temperature=0)


@dataclass
class Generation:
    """What one call produced and what it cost. Times are seconds since the call, one for each token."""

    prompt_ids: list[int]
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    token_times: list[float] = field(default_factory=list)
    positions_processed: int = 0
    stopped_by: str = "length"  # or "eos" or "stop"

    @property
    def seconds(self) -> float:
        return self.token_times[-1] if self.token_times else 0.0


@dataclass(frozen=True)
class Piece:
    """One step of a stream: the token, the text that became certain with it, and seconds since the call."""

    token: int
    text: str
    seconds: float


@torch.no_grad()
def generate_naive(
    model: Llama,
    prompt: str | Sequence[int],
    max_new: int = 64,
    settings: sampling.SamplingSettings = GREEDY,
    stop: Sequence[str] = (),
    ignore_eos: bool = False,
) -> Generation:
    """Generate without a cache: every token pushes the whole sequence through every layer again.

    `ignore_eos` goes on after the end token, for runs that must have one length.
    """
    max_new = whole("max_new", max_new)
    result = Generation(prompt_ids(model, prompt, max_new))
    check_settings(model, settings)
    text = text_stream(model, stop)
    held: list[int] = []

    def next_logits(new: list[int]) -> torch.Tensor:
        held.extend(new)
        result.positions_processed += len(held)
        return model(as_tensor(model, held), last_only=True)[-1]

    return _drain(_loop(model, result, next_logits, max_new, settings, text, ignore_eos))


@torch.no_grad()
def generate_cached(
    model: Llama,
    prompt: str | Sequence[int],
    max_new: int = 64,
    settings: sampling.SamplingSettings = GREEDY,
    stop: Sequence[str] = (),
    cache: KVCache | None = None,
    ignore_eos: bool = False,
) -> Generation:
    """Generate with a KV cache: the prompt once (prefill), then one position per token (decode).

    `cache` may be any empty cache of this model; by default one just large enough is made.
    `ignore_eos` goes on after the end token, for runs that must have one length.
    """
    return _drain(_cached(model, prompt, max_new, settings, stop, cache, ignore_eos))


def stream(
    model: Llama,
    prompt: str | Sequence[int],
    max_new: int = 64,
    settings: sampling.SamplingSettings = GREEDY,
    stop: Sequence[str] = (),
) -> Iterator[Piece]:
    """`generate_cached`, token by token. No piece ever holds half a character or part of a stop string.

    Joined, the pieces are the text of `generate_cached`. Bad arguments raise here, before the first piece is asked for.
    """
    steps = _cached(model, prompt, max_new, settings, stop, None)

    def pieces() -> Iterator[Piece]:
        while True:
            with torch.no_grad():
                piece = next(steps, None)
            if not isinstance(piece, Piece):
                return
            yield piece

    return pieces()


def _cached(
    model: Llama,
    prompt: str | Sequence[int],
    max_new: int,
    settings: sampling.SamplingSettings,
    stop: Sequence[str],
    cache: KVCache | None,
    ignore_eos: bool = False,
) -> Iterator[Piece | Generation]:
    max_new = whole("max_new", max_new)
    ids = prompt_ids(model, prompt, max_new)
    check_settings(model, settings)
    if cache is None:
        room = max(1, len(ids) + max_new - 1)  # the last token is never fed back
        cache = PreallocatedCache(model.config, room, dtype=model.dtype, device=model.device)
    elif cache.length:
        raise ValueError(
            f"the cache already holds {cache.length} positions of another sequence: truncate it to 0, or make a new one"
        )
    elif len(ids) + max_new - 1 > cache.max_len:
        raise ValueError(
            f"{len(ids)} prompt tokens and {max_new} new ones need {len(ids) + max_new - 1} positions, "
            f"but the cache has room for {cache.max_len}"
        )
    check_fits(cache, model.layout())
    result, text, held = Generation(ids), text_stream(model, stop), cache

    def next_logits(new: list[int]) -> torch.Tensor:
        result.positions_processed += len(new)
        return decode_step(model, new[0], held) if held.length else prefill(model, new, held)

    return _loop(model, result, next_logits, max_new, settings, text, ignore_eos)


def prefill(model: Llama, ids: Sequence[int], cache: KVCache) -> torch.Tensor:
    """Push the whole prompt through the model at once, filling the cache. Logits (V,) after its last token."""
    return model(as_tensor(model, ids), cache, last_only=True)[-1]


def decode_step(model: Llama, token: int, cache: KVCache) -> torch.Tensor:
    """Push one token through the model, adding one position to the cache. Logits (V,) for what follows it."""
    check_id(token, model.config.vocab_size)
    return model(as_tensor(model, [token]), cache, last_only=True)[-1]


def _loop(
    model: Llama,
    result: Generation,
    next_logits: Callable[[list[int]], torch.Tensor],
    max_new: int,
    settings: sampling.SamplingSettings,
    text: TextStream,
    ignore_eos: bool,
) -> Iterator[Piece | Generation]:
    """Choose, stop or go on. Yields a piece for each token, then the finished result."""
    tokenizer = model.tokenizer
    generator = settings.generator()
    start = time.perf_counter()
    new = result.prompt_ids
    while len(result.tokens) < max_new and result.stopped_by == "length":
        token = choose(next_logits(new), settings, [*result.prompt_ids, *result.tokens], result, generator)
        result.tokens.append(token)
        result.token_times.append(time.perf_counter() - start)
        new = [token]
        shown = ""
        if tokenizer is not None:
            shown = text.push(tokenizer.text_bytes(token))
            if text.stopped:
                result.stopped_by = "stop"
            elif token == tokenizer.eos_id and not ignore_eos:
                result.stopped_by = "eos"
        if len(result.tokens) == max_new or result.stopped_by != "length":
            shown += text.finish()
        result.text += shown
        yield Piece(token, shown, result.token_times[-1])
    yield result


def choose(
    logits: torch.Tensor,
    settings: sampling.SamplingSettings,
    context: Sequence[int],
    result: Generation,
    generator: torch.Generator,
) -> int:
    """The next token under the settings; the plain greedy case takes the argmax and nothing else."""
    if settings == GREEDY:
        token = int(logits.argmax())
        if not math.isfinite(logits[token]):  # argmax takes NaN for the largest of all
            raise ValueError("the logits hold NaN or inf, or every token is removed, so there is no best token")
        return token
    return sampling.sample(sampling.next_token_probs(logits, settings, context, len(result.prompt_ids)), generator)


def prompt_ids(model: Llama, prompt: str | Sequence[int], max_new: int) -> list[int]:
    """Ids of a prompt, checked: not empty, inside the vocabulary, and with room for the answer in the window."""
    if isinstance(prompt, str):
        if model.tokenizer is None:
            raise ValueError("this model has no tokenizer: give the prompt as a list of token ids")
        prompt = model.tokenizer.encode(prompt)
    ids = as_ids(prompt)
    max_new = whole("max_new", max_new)
    if not ids:
        raise ValueError("the prompt is empty: a model needs at least one token to go on from")
    check_id(min(ids), model.config.vocab_size)
    check_id(max(ids), model.config.vocab_size)
    if len(ids) + max_new > model.config.max_len:
        raise ValueError(
            f"{len(ids)} prompt tokens and {max_new} new ones exceed the window of {model.config.max_len} positions: "
            f"shorten the prompt or lower max_new"
        )
    return ids


def text_stream(model: Llama, stop: Sequence[str]) -> TextStream:
    text = TextStream(stop)
    if stop and model.tokenizer is None:
        raise ValueError("this model has no tokenizer, so stop strings cannot be found: leave stop empty")
    return text


def check_settings(model: Llama, settings: sampling.SamplingSettings) -> None:
    """ValueError now, not in the middle of an answer, for settings that this model cannot follow."""
    if not isinstance(settings, sampling.SamplingSettings):
        raise ValueError(f"settings must be SamplingSettings(...), got {settings!r:.60}")
    for token in settings.logit_bias:
        if token >= model.config.vocab_size:
            raise ValueError(f"logit_bias names id {token}, but ids run from 0 to {model.config.vocab_size - 1}")


def as_tensor(model: Llama, ids: Sequence[int]) -> torch.Tensor:
    return torch.tensor(ids, dtype=torch.long, device=model.device)


def _drain(steps: Iterator[Piece | Generation]) -> Generation:
    for step in steps:
        if isinstance(step, Generation):
            return step
    raise RuntimeError("the generation loop ended without a result")
