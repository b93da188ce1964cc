"""A request on its way through the engine, and the times it leaves behind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import torch

from kvlab.sampling import SamplingSettings


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"  # no token could be chosen for it: `Request.error` says why


@dataclass(eq=False)
class Request:
    """One prompt to be continued. Times are seconds on the engine's clock.

    arrival: when it comes in; 0 is the start of the run. ignore_eos: go on after the end token, for runs of one length.
    cache_salt: only requests with the same salt share cached blocks. cache_limit: the most prompt tokens that may come
    from the prefix cache; None sets no limit.
    """

    id: str
    prompt: Sequence[int]
    max_new: int = 64
    settings: SamplingSettings = field(default_factory=lambda: SamplingSettings(temperature=0))
    arrival: float = 0.0
    ignore_eos: bool = False
    cache_salt: bytes = b""
    cache_limit: int | None = None

    # What the engine fills in
    state: State = State.WAITING
    turn: int = 0  # which submission it was: who is first among equal arrivals
    output: list[int] = field(default_factory=list)
    computed: int = 0  # tokens whose K and V are in the cache
    from_cache: int = 0  # prompt tokens that a prefix hit saved, at the first start
    positions: int = 0  # positions pushed through the model, recomputed ones too
    preemptions: int = 0
    started: float = math.nan  # when the first of its positions was computed
    token_times: list[float] = field(default_factory=list)
    error: Exception | None = None  # what ended it, when it failed
    generator: torch.Generator | None = None

    @property
    def tokens(self) -> list[int]:
        """Prompt and answer so far."""
        return [*self.prompt, *self.output]

    @property
    def place(self) -> tuple[float, int]:
        """Its place in every queue: by arrival, then by submission, also when it comes back into one."""
        return self.arrival, self.turn

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.output)

    @property
    def remaining(self) -> int:
        """Tokens that must be computed before the next one can be chosen: 1 while it decodes."""
        return self.length - self.computed

    @property
    def decoding(self) -> bool:
        return bool(self.output) and self.remaining == 1

    @property
    def ttft(self) -> float:
        """Time to first token, waiting included; nan before it."""
        return self.token_times[0] - self.arrival if self.token_times else math.nan

    @property
    def gaps(self) -> list[float]:
        """Seconds between one token and the next."""
        return [b - a for a, b in zip(self.token_times, self.token_times[1:], strict=False)]

    @property
    def tpot(self) -> float:
        """Mean time per output token after the first; nan for fewer than two."""
        return sum(self.gaps) / len(self.gaps) if self.gaps else math.nan

    @property
    def e2e(self) -> float:
        """From arrival to the last token; nan before the first."""
        return self.token_times[-1] - self.arrival if self.token_times else math.nan
