"""What a client sees of an OpenAI-compatible endpoint: time to first token, time per token, gaps. Through the SDK's stream."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvlab.validate import whole

PROMPT = "Tell me a short story about a boy, a frame and a river."


@dataclass(frozen=True)
class Answer:
    """One streamed answer. Times in seconds from the moment the request was sent; `chunks`: when each text came."""

    chunks: tuple[float, ...]
    end: float
    prompt_tokens: int | None
    cached_tokens: int | None
    tokens: int | None

    @property
    def ttft(self) -> float:
        """Time to the first text."""
        return self.chunks[0]

    @property
    def tpot(self) -> float:
        """Mean time per token after the first; nan for one token. Without the endpoint's count a chunk is taken as one."""
        n = len(self.chunks) if self.tokens is None else self.tokens
        return (self.chunks[-1] - self.chunks[0]) / (n - 1) if n > 1 else float("nan")

    @property
    def gaps(self) -> tuple[float, ...]:
        """Times between chunks, which may hold more than one token."""
        return tuple(b - a for a, b in zip(self.chunks[:-1], self.chunks[1:], strict=True))


def ask(
    client: Any, model: str, prompt: str = PROMPT, max_tokens: int = 64, now: Callable[[], float] = time.perf_counter
) -> Answer:
    """Send one prompt at temperature 0 and time its stream. ValueError when no text came back."""
    max_tokens = whole("max_tokens", max_tokens, least=1)
    start, chunks, usage = now(), [], None
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=max_tokens,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    for event in stream:
        if event.choices and event.choices[0].delta.content:
            chunks.append(now() - start)
        usage = event.usage or usage
    if not chunks:
        raise ValueError(f"the model {model!r} sent no text: raise max_tokens, or try another prompt")
    details = getattr(usage, "prompt_tokens_details", None)
    return Answer(
        tuple(chunks),
        now() - start,
        getattr(usage, "prompt_tokens", None),
        getattr(details, "cached_tokens", None),
        getattr(usage, "completion_tokens", None),
    )


def first_model(client: Any) -> tuple[str, str]:
    """The first model that the endpoint lists, and the one that really answers: kvlab's own server has one for all."""
    answer = client.models.with_raw_response.list()
    listed = list(answer.parse())
    if not listed:
        raise ValueError("the endpoint lists no model: name one with --model")
    return str(listed[0].id), answer.headers.get("x-kvlab-model", str(listed[0].id))


def report(answers: list[Answer]) -> str:
    """A line for each answer, then medians, in milliseconds."""
    head = f"{'answer':>6} {'prompt':>7} {'cached':>7} {'tokens':>7} {'ttft ms':>9} {'tpot ms':>9} {'worst gap ms':>13}"
    lines = [head]
    for i, one in enumerate(answers, start=1):
        counts = " ".join(f"{'-' if n is None else n:>7}" for n in (one.prompt_tokens, one.cached_tokens, one.tokens))
        worst = max(one.gaps, default=float("nan"))
        lines.append(f"{i:>6} {counts} {1e3 * one.ttft:>9.1f} {1e3 * one.tpot:>9.2f} {1e3 * worst:>13.1f}")
    middle = [statistics.median(values) for values in ([a.ttft for a in answers], [a.tpot for a in answers])]
    lines.append(f"median: ttft {1e3 * middle[0]:.1f} ms, tpot {1e3 * middle[1]:.2f} ms")
    return "\n".join(lines)
