"""OpenAI's Chat Completions API: what a request may say, and the JSON of answers, chunks and errors."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kvlab.providers.errors import ApiError, invalid
from kvlab.providers.visit import Counts
from kvlab.sampling import SamplingSettings

FINISH = {"eos": "stop", "length": "length", "stop": "stop"}
DEFAULT_ANSWER = 64  # tokens; the service goes on until the model ends
# Known to the service, but nothing that this server could do: refused with a sentence of their own.
ELSEWHERE = (
    "audio", "function_call", "functions", "logprobs", "modalities", "moderation", "prediction", "prompt_cache_options",
    "response_format", "top_logprobs", "web_search_options",
)  # fmt: skip


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class TextPart(_Part):
    type: Literal["text"]
    text: str


class Message(_Part):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    annotations: Any = None
    audio: None = None
    function_call: None = None

    _short = field_validator("content", mode="before")(
        lambda value: [{"type": "text", "text": value}] if isinstance(value, str) else value
    )


class StreamOptions(_Part):
    include_usage: bool = False
    include_obfuscation: bool | None = None


class Tool(_Part):
    model_config = ConfigDict(extra="allow", strict=True)
    type: Literal["function"]
    function: dict[str, Any]


class Create(_Part):
    """The body of chat.completions.create."""

    model: str
    messages: list[Message] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    frequency_penalty: float | None = Field(None, ge=-2, le=2, allow_inf_nan=False)
    presence_penalty: float | None = Field(None, ge=-2, le=2, allow_inf_nan=False)
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    stop: list[str] = Field([], max_length=4)
    n: Literal[1] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    tools: list[Tool] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    metadata: dict[str, str] | None = None
    reasoning_effort: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    user: str | None = None
    verbosity: str | None = None

    _short = field_validator("stop", mode="before")(
        lambda value: [value] if isinstance(value, str) else [] if value is None else value
    )

    @property
    def answer_limit(self) -> int:
        return self.max_completion_tokens or self.max_tokens or DEFAULT_ANSWER

    def settings(self, temperature: float) -> SamplingSettings:
        """How tokens are chosen; `temperature` where the request names none."""
        return SamplingSettings(
            temperature=temperature if self.temperature is None else self.temperature,
            top_p=max(self.top_p, 1e-9) if self.top_p is not None else 1.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            presence_penalty=self.presence_penalty or 0.0,
            logit_bias=_bias(self.logit_bias or {}),
            seed=None if self.seed is None else self.seed % 2**64,
        )


def _bias(given: dict[str, float]) -> dict[int, float]:
    bias = {}
    for token, value in given.items():
        if not token.isascii() or not token.isdigit():
            raise invalid(
                f"Invalid key in 'logit_bias': {token!r:.40}. You should only be using token ids.", "logit_bias"
            )
        if not -100 <= value <= 100:
            raise invalid("Invalid 'logit_bias': each value must lie between -100 and 100.", "logit_bias")
        bias[int(token[:19])] = value
    return bias


def read_create(body: Any) -> Create:
    """A checked request. Raises ApiError in the form of the service."""
    if not isinstance(body, dict):
        raise invalid("We expect a JSON object as the body of your request.")
    for name in ELSEWHERE:
        if body.get(name) not in (None, False):
            raise invalid(f"This local server has no {name!r}: leave it out.", name, "unsupported_parameter")
    try:
        request = Create.model_validate({key: value for key, value in body.items() if key not in ELSEWHERE})
    except ValidationError as error:
        raise _refusal(error) from None
    if any(not stop for stop in request.stop):
        raise invalid("Invalid 'stop': a stop sequence must not be empty.", "stop")
    if request.stream_options is not None and not request.stream:
        raise invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    return request


def _refusal(error: ValidationError) -> ApiError:
    """The first problem, in the words and with the code of the service."""
    first = error.errors(include_url=False, include_context=False)[0]
    if not first["loc"]:
        return invalid(f"Invalid body: {first['msg']}.")
    param = str(first["loc"][0]) + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in first["loc"][1:])
    if first["type"] == "missing":
        return invalid(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
    if first["type"] == "extra_forbidden":
        return invalid(f"Unknown parameter: '{param}'.", param, "unknown_parameter")
    code = "invalid_type" if first["type"].endswith("_type") else "invalid_value"
    word = "type for" if code == "invalid_type" else "value for"
    return invalid(f"Invalid {word} '{param}': {first['msg']}.", param, code)


def usage(counts: Counts, n_output: int) -> dict[str, Any]:
    """The usage of an answer: prompt_tokens include the cached ones."""
    return {
        "prompt_tokens": counts.total,
        "completion_tokens": n_output,
        "total_tokens": counts.total + n_output,
        "prompt_tokens_details": {"cached_tokens": counts.read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def completion(
    request_id: str, model: str, created: int, counts: Counts, n_output: int, text: str, reason: str
) -> dict[str, Any]:
    """A ChatCompletion."""
    answer: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    return {
        "id": request_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": answer, "logprobs": None, "finish_reason": FINISH[reason]}],
        "usage": usage(counts, n_output),
        "service_tier": "default",
        "system_fingerprint": "kvlab",
    }


def chunk(
    request_id: str,
    model: str,
    created: int,
    delta: dict[str, Any] | None,
    reason: str | None = None,
    usage: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A ChatCompletionChunk; `delta` None for the last one, which carries the usage and no choice."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None if reason is None else FINISH[reason]}
    return {
        "id": request_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "service_tier": "default",
        "system_fingerprint": "kvlab",
        "choices": [] if delta is None else [choice],
        "usage": usage,
    }


def error_body(error: ApiError) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}}
