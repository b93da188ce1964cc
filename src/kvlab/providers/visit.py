"""One request at the cache: what it may read, and what it has read and written once the engine has begun.

Anthropic: prefixes end at breakpoints; a read finds what an earlier request wrote at one of its breakpoints, looking
back a few blocks. OpenAI: every prompt of 1024 tokens or more is kept, and found again in steps of 128.
An entry can be read as soon as the answer of the request that writes it begins, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kvlab.providers.ledger import Ledger, extend
from kvlab.providers.rules import openai_cached_tokens

LOOK_BACK = 20  # blocks that a breakpoint looks at, its own included
TTL = {"5m": 300.0, "1h": 3600.0}
OPENAI_TTL = {"in_memory": 600.0, "24h": 86400.0}
STEP, MINIMUM = 128, 1024


@dataclass
class Counts:
    """Prompt tokens of one request: read from the cache, written for 5 minutes and for an hour, and the rest."""

    read: int = 0
    written_5m: int = 0
    written_1h: int = 0
    fresh: int = 0

    @property
    def total(self) -> int:
        return self.read + self.written_5m + self.written_1h + self.fresh


class Visit(Protocol):
    """A prompt on its way into the engine. `salt` keeps one customer's blocks from another's."""

    tokens: list[int]
    salt: bytes

    def admit(self, ledger: Ledger) -> int:
        """The most tokens that may come from the cache now."""
        ...

    def settle(self, ledger: Ledger, from_cache: int, block_size: int) -> Counts:
        """The engine took `from_cache` tokens from blocks of its own and has begun to answer: book it."""
        ...


@dataclass
class Place:
    """The end of a content block: its position in tokens, the digest up to there, and its ttl if it is marked."""

    position: int
    digest: bytes
    ttl: str | None


@dataclass
class BreakpointVisit:
    """Anthropic's rules. `segments`: the tokens of each block; `ttls`: its mark or None; `tail`: what follows."""

    salt: bytes
    segments: Sequence[Sequence[int]]
    ttls: Sequence[str | None]
    tail: Sequence[int]
    minimum: int
    start: float
    tokens: list[int] = field(init=False)
    places: list[Place] = field(init=False)
    readable: list[Place] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens, self.places, digest = [], [], self.salt
        for segment, ttl in zip(self.segments, self.ttls, strict=True):
            self.tokens += segment
            digest = extend(digest, segment)
            self.places.append(Place(len(self.tokens), digest, ttl))
        self.tokens += self.tail

    def admit(self, ledger: Ledger) -> int:
        """The longest entry that is alive within the look-back of a breakpoint."""
        seen: dict[int, Place] = {}
        for index, place in enumerate(self.places):
            if place.ttl is not None:
                for back in range(max(0, index - LOOK_BACK + 1), index + 1):
                    if ledger.alive(self.places[back].digest, self.start):
                        seen[back] = self.places[back]
        self.readable = [seen[back] for back in sorted(seen, reverse=True)]
        return self.readable[0].position if self.readable else 0

    def settle(self, ledger: Ledger, from_cache: int, block_size: int) -> Counts:
        """Refresh what was read, enter the breakpoints behind it, and count.

        Blocks that the engine has evicted meanwhile can't be read, whatever the book says.
        """
        held = [p for p in self.readable if whole_blocks(p.position, len(self.tokens), block_size) <= from_cache]
        read = held[0].position if held else 0
        for place in held:  # the entry that was read, and shorter ones at this request's own breakpoints
            if (place.position == read or place.ttl) and ledger.alive(place.digest, self.start):
                ledger.touch(place.digest, self.start)
        new = [p for p in self.places if p.ttl and p.position > read and p.position >= self.minimum]
        for place in new:
            ledger.write(place.digest, self.start, TTL[place.ttl or "5m"])
        hour = max((p.position for p in new if p.ttl == "1h"), default=read)
        end = max((p.position for p in new), default=read)
        return Counts(read, end - hour, hour - read, len(self.tokens) - end)


@dataclass
class PrefixVisit:
    """OpenAI's rules before GPT-5.6: automatic, and free to write."""

    salt: bytes
    tokens: list[int]
    ttl: float
    start: float
    places: list[tuple[int, bytes]] = field(init=False)
    readable: int = 0

    def __post_init__(self) -> None:
        self.places, digest, done = [], self.salt, 0
        for position in range(MINIMUM, len(self.tokens) + 1, STEP):
            digest, done = extend(digest, self.tokens[done:position]), position
            self.places.append((position, digest))

    def admit(self, ledger: Ledger) -> int:
        """The longest beginning that was seen before, leaving one token to compute."""
        shared = 0
        for position, digest in self.places:
            if position >= len(self.tokens) or not ledger.alive(digest, self.start):
                break
            shared = position
        self.readable = openai_cached_tokens(shared, MINIMUM, STEP)
        return self.readable

    def settle(self, ledger: Ledger, from_cache: int, block_size: int) -> Counts:
        """Enter every step of this prompt, new or not: a use begins its time again."""
        held = (p for p, _ in self.places if whole_blocks(p, len(self.tokens), block_size) <= from_cache)
        read = max((p for p in held if p <= self.readable), default=0)
        for _, digest in self.places:
            ledger.write(digest, self.start, self.ttl)
        return Counts(read=read, fresh=len(self.tokens) - read)


def whole_blocks(position: int, prompt: int, block_size: int) -> int:
    """How many of `position` tokens the engine can take from blocks: whole ones, and never the whole prompt."""
    return min(position, prompt - 1) // block_size * block_size
