"""Behind the two wire formats: a request's body becomes a prompt, a visit to the cache, and a job for the engine."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvlab.providers import anthropic_wire, openai_wire, prices
from kvlab.providers.errors import ApiError, invalid
from kvlab.providers.ledger import namespace
from kvlab.providers.prompt import ANSWER, anthropic_blocks, anthropic_tail, openai_blocks
from kvlab.providers.visit import OPENAI_TTL, BreakpointVisit, PrefixVisit, Visit
from kvlab.providers.worker import Worker
from kvlab.sampling import SamplingSettings


class Now(Protocol):
    """Seconds since any start; it only has to go forward."""

    def now(self) -> float: ...


@dataclass(frozen=True)
class Prepared:
    """A request that can be run."""

    id: str
    model: str
    visit: Visit
    settings: SamplingSettings
    max_new: int
    stop: tuple[str, ...]
    stream: bool
    prefill_only: bool = False
    stream_usage: bool = False
    created: int = field(default_factory=lambda: int(time.time()))


class Service:
    """One model behind both formats. `temperature` is used where a request names none."""

    def __init__(self, worker: Worker, clock: Now, local_model: str, temperature: float = 0.0) -> None:
        self.worker, self.clock, self.local_model, self.temperature = worker, clock, local_model, temperature
        self.window = worker.engine.model.config.max_len
        self._minimum = {r.id: r.minimum for r in prices.models("anthropic") if r.minimum is not None}
        self._openai = [r.id for r in prices.models("openai") if not r.breakpoints]

    @property
    def model_ids(self) -> dict[str, list[str]]:
        """The model names that are answered, by provider."""
        return {"anthropic": list(self._minimum), "openai": list(self._openai)}

    def create_message(self, body: Any, key: str) -> Prepared:
        """A Messages request. Raises ApiError for one that the service would refuse, too."""
        start = self.clock.now()
        request = anthropic_wire.read_create(body)
        salt = namespace("anthropic", key, request.model)
        visit = self._breakpoint_visit(request, body, salt, start)
        prompt = len(visit.tokens)
        if prompt > self.window:
            raise invalid(f"prompt is too long: {prompt} tokens > {self.window} maximum")
        if prompt + max(1, request.max_tokens) > self.window:
            raise invalid(
                f"input length and `max_tokens` exceed context limit: {prompt} + {request.max_tokens} > {self.window}, "
                f"decrease input length or `max_tokens` and try again"
            )
        return Prepared(
            _new_id("msg_"),
            request.model,
            visit,
            request.settings(self.temperature),
            max(1, request.max_tokens),
            tuple(request.stop_sequences),
            request.stream,
            prefill_only=request.max_tokens == 0,
        )

    def count_tokens(self, body: Any) -> int:
        """The prompt's tokens, as `create_message` would count them."""
        request = anthropic_wire.read_count(body)
        return len(self._breakpoint_visit(request, body, b"", 0.0).tokens)

    def create_completion(self, body: Any, key: str) -> Prepared:
        """A Chat Completions request. Raises ApiError for one that the service would refuse, too.

        The service sends requests of one prompt_cache_key to the same machine; here each key is a machine of its own.
        """
        start = self.clock.now()
        request = openai_wire.read_create(body)
        if request.model not in self._openai:
            message = f"The model `{request.model:.100}` does not exist or you do not have access to it."
            raise ApiError(404, "invalid_request_error", message, "model", "model_not_found")
        segments, tail = self._encode([block.text for block in openai_blocks(body)], ANSWER)
        tokens = [token for segment in (*segments, tail) for token in segment]
        if len(tokens) + request.answer_limit > self.window:
            raise invalid(
                f"This model's maximum context length is {self.window} tokens. However, you requested "
                f"{len(tokens) + request.answer_limit} tokens ({len(tokens)} in the messages, {request.answer_limit} in "
                f"the completion). Please reduce the length of the messages or completion.",
                "messages",
                "context_length_exceeded",
            )
        salt = namespace("openai", key, request.model, request.prompt_cache_key or "")
        ttl = OPENAI_TTL[request.prompt_cache_retention or "in_memory"]
        return Prepared(
            _new_id("chatcmpl-"),
            request.model,
            PrefixVisit(salt, tokens, ttl, start),
            request.settings(self.temperature),
            request.answer_limit,
            tuple(request.stop),
            bool(request.stream),
            stream_usage=request.stream_options is not None and request.stream_options.include_usage,
        )

    def _breakpoint_visit(
        self, request: anthropic_wire.Count, body: Mapping[str, Any], salt: bytes, start: float
    ) -> BreakpointVisit:
        if request.model not in self._minimum:
            raise ApiError(404, "not_found_error", f"model: {request.model:.100}")
        blocks = anthropic_blocks(body)
        ttls = anthropic_wire.breakpoints(blocks, request.cache_control)
        segments, tail = self._encode([block.text for block in blocks], anthropic_tail(body))
        return BreakpointVisit(salt, segments, ttls, tail, self._minimum[request.model], start)

    def _encode(self, texts: list[str], tail: str) -> tuple[list[list[int]], list[int]]:
        """Tokens of each text alone, and of what follows them.

        The begin token, where the model has one, stands before the first text and after the tail: a small model that
        was trained on whole texts then tells one, instead of ending the conversation.
        """
        tokenizer = self.worker.tokenizer
        try:
            *segments, end = tokenizer.encode_batch([*texts, tail])
        except ValueError as error:  # half a character
            raise invalid(f"messages: {error}") from None
        if tokenizer.bos_id is not None:
            segments[0] = [tokenizer.bos_id, *segments[0]]
            end += [tokenizer.bos_id] if tail else []
        return segments, end


def _new_id(prefix: str) -> str:
    return prefix + secrets.token_hex(12)
