"""The rules of prompt caching as plain functions: what counts as cached, when it pays, where two prompts part.

No torch, and nothing of the server: sizes in tokens, costs in multiples of the input price.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kvlab.validate import amount, whole


def cached_prefix_length(stored: Sequence[int], prompt: Sequence[int], block: int) -> int:
    """How many tokens of `prompt` can be taken from the cache of the one sequence `stored`.

    The longest common prefix in whole blocks of `block` tokens, always leaving at least one token of the prompt to
    compute: the model must see it to give the next one. Raises ValueError for a block below 1.
    """
    block = whole("block", block, least=1)
    common = 0
    for ours, theirs in zip(prompt, stored, strict=False):
        if ours != theirs:
            break
        common += 1
    return max(0, min(common, len(prompt) - 1)) // block * block


def openai_cached_tokens(shared_prefix: int, minimum: int = 1024, step: int = 128) -> int:
    """Tokens that OpenAI counts as cached when so many at the beginning are shared: `minimum` and whole steps above.

    0 below the minimum. Raises ValueError for a negative prefix or minimum, or a step below 1.
    """
    shared_prefix, minimum = whole("shared_prefix", shared_prefix), whole("minimum", minimum)
    step = whole("step", step, least=1)
    if shared_prefix < minimum:
        return 0
    return minimum + (shared_prefix - minimum) // step * step


def break_even_requests(write_multiplier: float, read_multiplier: float) -> int:
    """The smallest number of requests with one prefix for which caching costs strictly less than not caching.

    The first request writes, the others read: write + (n - 1) read < n, so n > (write - read) / (1 - read).
    Raises ValueError where it never pays: a read of 1 or more with a write of 1 or more.
    """
    write = amount("write_multiplier", write_multiplier)
    read = amount("read_multiplier", read_multiplier)
    if write < 1:
        return 1
    if read >= 1:
        raise ValueError(f"a write of {write} and a read of {read} times the input price never pay: leave caching off")
    # An exact tie, such as (1, 0.5) or (1.9, 0.1), costs the same and does not count; floats can miss it by a hair.
    least = (write - read) / (1 - read)
    if not math.isfinite(least):
        raise ValueError(f"a write of {write} and a read of {read} times the input price never pay: leave caching off")
    return math.floor(least + 1e-12) + 1


def merge_usage(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The usage of one streamed answer, from the usage objects of its events in order.

    The counts are cumulative: the last value of a key that is not None wins, and nothing is added up.
    """
    merged: dict[str, Any] = {}
    for event in events:
        if not isinstance(event, Mapping):
            raise ValueError(f"each event must be a dictionary of counts, got {event!r:.60}")
        merged |= {key: value for key, value in event.items() if value is not None}
    return merged


class Difference(NamedTuple):
    """Where two prompts part. `byte`: index of the first differing byte. `before`, `a`, `b`: text around it."""

    byte: int
    before: str
    a: str
    b: str


def first_difference(a: str | bytes, b: str | bytes, context: int = 24) -> Difference | None:
    """The first byte in which two prompts differ, or None when they are equal; texts count as UTF-8.

    When one is the beginning of the other, they differ where the shorter one ends, and its text there is empty.
    `context`: bytes shown before and after.
    """
    context = whole("context", context)
    left, right = _bytes("a", a), _bytes("b", b)
    if left == right:
        return None
    shorter = min(len(left), len(right))
    at = next((i for i in range(shorter) if left[i] != right[i]), shorter)
    pieces = (left[max(0, at - context) : at], left[at : at + context], right[at : at + context])
    return Difference(at, *(piece.decode("utf-8", "replace") for piece in pieces))


def _bytes(name: str, prompt: str | bytes) -> bytes:
    if isinstance(prompt, str):
        return prompt.encode("utf-8", "surrogatepass")
    if isinstance(prompt, bytes | bytearray):
        return bytes(prompt)
    raise ValueError(f"{name} must be a text or bytes, got {prompt!r:.60}: give the prompt as it is sent")
