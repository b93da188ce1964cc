"""Anthropic's Messages API: what a request may say, and the JSON of answers, events and errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kvlab.providers.errors import ApiError, invalid
from kvlab.providers.prompt import Block
from kvlab.providers.visit import Counts
from kvlab.sampling import SamplingSettings

MARKS = 4  # breakpoints in one request
STOP_REASONS = {"eos": "end_turn", "length": "max_tokens", "stop": "stop_sequence"}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CacheControl(_Part):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class TextBlock(_Part):
    type: Literal["text"]
    text: str
    citations: Any = None
    cache_control: CacheControl | None = None


class ToolUse(_Part):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    caller: Any = None
    cache_control: CacheControl | None = None


class ToolResult(_Part):
    type: Literal["tool_result"]
    tool_use_id: str
    content: list[TextBlock] = []
    is_error: bool | None = None
    cache_control: CacheControl | None = None

    _short = field_validator("content", mode="before")(lambda value: _blocks(value))


class Tool(_Part):
    model_config = ConfigDict(extra="allow", strict=True)
    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    cache_control: CacheControl | None = None


class Metadata(_Part):
    user_id: str | None = None


class Message(_Part):
    role: Literal["user", "assistant"]
    content: list[Annotated[TextBlock | ToolUse | ToolResult, Field(discriminator="type")]] = Field(min_length=1)

    _short = field_validator("content", mode="before")(lambda value: _blocks(value))


class Count(_Part):
    """The body of count_tokens: everything that belongs to the prompt."""

    model: str
    messages: list[Message] = Field(min_length=1)
    system: list[TextBlock] = []
    tools: list[Tool] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    cache_control: CacheControl | None = None

    _short = field_validator("system", mode="before")(lambda value: _blocks(value))


class Create(Count):
    """The body of messages.create."""

    max_tokens: int = Field(ge=0)
    stream: bool = False
    stop_sequences: list[str] = []
    temperature: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    top_p: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    top_k: int | None = Field(None, ge=0)
    metadata: Metadata | None = None
    service_tier: str | None = None
    inference_geo: str | None = None

    def settings(self, temperature: float) -> SamplingSettings:
        """How tokens are chosen; `temperature` where the request names none."""
        return SamplingSettings(
            temperature=temperature if self.temperature is None else self.temperature,
            top_k=self.top_k or None,
            top_p=max(self.top_p, 1e-9) if self.top_p is not None else 1.0,
        )


T = TypeVar("T", bound=Count)


def _blocks(value: Any) -> Any:
    """A string is short for one block of text."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [] if value is None else value


def read_create(body: Any) -> Create:
    """A checked request. Raises ApiError in the words of the service."""
    request = _read(Create, body)
    for sequence in request.stop_sequences:
        if not sequence.strip():
            raise invalid("stop_sequences: each stop sequence must contain non-whitespace")
    if request.max_tokens == 0 and request.stream:
        raise invalid("max_tokens: 0 cannot be combined with stream")
    return request


def read_count(body: Any) -> Count:
    """A checked request to count tokens."""
    return _read(Count, body)


def _read(kind: type[T], body: Any) -> T:
    if not isinstance(body, dict):
        raise invalid("The request body must be a JSON object")
    try:
        request = kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        if first["type"] == "too_short" and place == "messages":
            raise invalid("messages: at least one message is required") from None
        raise invalid(f"{place}: {first['msg']}" if place else first["msg"]) from None
    for block in (*request.system, *(block for message in request.messages for block in message.content)):
        if isinstance(block, TextBlock) and not block.text:
            raise invalid("messages: text content blocks must be non-empty")
    return request


def breakpoints(blocks: list[Block], automatic: CacheControl | None) -> list[str | None]:
    """The ttl of each block that is a breakpoint, else None. Raises ApiError for more than four, or a wrong order.

    The automatic one goes to the last block. An entry of an hour must stand before those of five minutes.
    """
    ttls = [None if block.mark is None else str(block.mark.get("ttl", "5m")) for block in blocks]
    if automatic is not None and blocks:
        if ttls[-1] is not None and ttls[-1] != automatic.ttl:
            raise invalid("cache_control: the last block has a cache_control with another ttl than the top-level one")
        ttls[-1] = automatic.ttl
    marked = [ttl for ttl in ttls if ttl is not None]
    if len(marked) > MARKS:
        raise invalid(f"A maximum of {MARKS} blocks with cache_control may be provided. Found {len(marked)}.")
    if marked != sorted(marked):  # "1h" before "5m"
        raise invalid(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block "
            "(blocks are processed in the order tools, system, messages)"
        )
    return ttls


def usage(counts: Counts, n_output: int) -> dict[str, Any]:
    """The usage of an answer: the prompt is input + creation + read."""
    return {
        "input_tokens": counts.fresh,
        "cache_creation_input_tokens": counts.written_5m + counts.written_1h,
        "cache_read_input_tokens": counts.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": counts.written_5m,
            "ephemeral_1h_input_tokens": counts.written_1h,
        },
        "output_tokens": n_output,
        "service_tier": "standard",
    }


def message(
    request_id: str, model: str, counts: Counts, n_output: int, text: str | None, reason: str | None, stop: str | None
) -> dict[str, Any]:
    """A Message; text None for one without content."""
    return {
        "id": request_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [] if text is None else [{"type": "text", "text": text, "citations": None}],
        "stop_reason": None if reason is None else STOP_REASONS[reason],
        "stop_sequence": stop,
        "usage": usage(counts, n_output),
    }


def opening(request_id: str, model: str, counts: Counts) -> list[dict[str, Any]]:
    """The events before the first text. The first one carries the prompt's usage."""
    return [
        {"type": "message_start", "message": message(request_id, model, counts, 1, None, None, None)},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
    ]


def delta(text: str) -> dict[str, Any]:
    """The event of a piece of text."""
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def closing(counts: Counts, n_output: int, reason: str, stop: str | None) -> list[dict[str, Any]]:
    """The events after the last text. Counts are cumulative: they repeat the prompt's and give the whole answer's."""
    final = {key: value for key, value in usage(counts, n_output).items() if key.endswith("_tokens")}
    return [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": STOP_REASONS[reason], "stop_sequence": stop},
            "usage": final,
        },
        {"type": "message_stop"},
    ]


def error_body(error: ApiError, request_id: str) -> dict[str, Any]:
    """The body of a refusal."""
    return {
        "type": "error",
        "error": {"type": error.kind, "message": error.message},
        "request_id": request_id,
    }
