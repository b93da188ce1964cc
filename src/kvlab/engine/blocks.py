"""Who owns which block of the paged cache: reference counts, copy-on-write, and a prefix cache.

The pool is cut into blocks of `block_size` positions. A sequence has a block table: its positions in order, block by
block (Kwon et al., 2023, PagedAttention, arXiv 2309.06180). Sequences with the same beginning can share the blocks of
it. A full block is known by a hash of its tokens and of the block before it, so equal blocks mean equal beginnings.
Before the first block stands a salt: sequences with different salts never share, whatever their tokens.

Blocks that nobody uses but whose content may be wanted again wait in a list, least recently used first, and count as
free: they are taken when no empty block is left.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from kvlab.room import check_room_for
from kvlab.validate import whole

BYTES_PER_BLOCK = 48  # of the lists below: two references and an integer


class OutOfBlocks(MemoryError):
    """No block is free. Nothing was changed."""


@dataclass
class _Sequence:
    blocks: list[int] = field(default_factory=list)
    reserved: int = 0  # positions that have a place
    digests: list[bytes] = field(default_factory=list)  # of its full, written blocks
    root: bytes = b""  # the digest before the first block


class BlockManager:
    """Hands out the blocks of a pool. It knows no tensors: the copies it asks for are made by the caller.

    prefix_caching=False forgets the content of a block as soon as nobody uses it. Sizes below 1, and more blocks than
    fit the memory, raise ValueError.
    """

    def __init__(self, n_blocks: int, block_size: int, prefix_caching: bool = True) -> None:
        self.n_blocks = whole("n_blocks", n_blocks, least=1)
        self.block_size = whole("block_size", block_size, least=1)
        self.prefix_caching = prefix_caching
        check_room_for(f"the lists of {self.n_blocks} blocks", self.n_blocks * BYTES_PER_BLOCK, "choose fewer blocks")
        self._references = [0] * self.n_blocks
        self._empty: deque[int] = deque(range(self.n_blocks))
        self._unused: OrderedDict[int, bytes] = OrderedDict()  # block -> digest; least recently used first
        self._by_digest: dict[bytes, int] = {}
        self._digest_of: dict[int, bytes] = {}
        self._sequences: dict[Hashable, _Sequence] = {}

    # What is there

    @property
    def n_free(self) -> int:
        """Blocks that can be had: empty ones, and unused ones that still hold something."""
        return len(self._empty) + len(self._unused)

    @property
    def n_used(self) -> int:
        return self.n_blocks - self.n_free

    @property
    def n_shared(self) -> int:
        """Blocks that more than one sequence uses."""
        return sum(count > 1 for count in self._references)

    @property
    def n_cached(self) -> int:
        """Unused blocks whose content can still be found."""
        return len(self._unused)

    @property
    def cached_blocks(self) -> tuple[int, ...]:
        """Unused blocks whose content can still be found, the one that goes first in front."""
        return tuple(self._unused)

    def block_table(self, seq: Hashable) -> list[int]:
        return list(self._get(seq).blocks)

    def reserved(self, seq: Hashable) -> int:
        """Positions of a sequence that have a place."""
        return self._get(seq).reserved

    def __contains__(self, seq: Hashable) -> bool:
        return seq in self._sequences

    def blocks_for(self, n_tokens: int) -> int:
        return -(-n_tokens // self.block_size)

    # What changes it

    def start(self, seq: Hashable, tokens: Sequence[int], salt: bytes = b"", at_most: int | None = None) -> int:
        """Begin a sequence with the blocks that hold its beginning already. Returns how many tokens that saves.

        At least one token is left to compute: a model must see it to give the next one. Blocks are found only among
        those of the same `salt`, and no more than `at_most` tokens are taken from them.
        """
        if seq in self._sequences:
            raise ValueError(f"sequence {seq!r} exists already")
        state = _Sequence(root=hashlib.sha256(salt).digest() if salt else b"")
        digest = state.root
        usable = len(tokens) - 1 if at_most is None else min(len(tokens) - 1, whole("at_most", at_most))
        for first in range(0, usable // self.block_size * self.block_size, self.block_size):
            digest = _digest(digest, tokens[first : first + self.block_size])
            block = self._by_digest.get(digest)
            if block is None:
                break
            self._take(block)
            state.blocks.append(block)
            state.digests.append(digest)
        state.reserved = len(state.blocks) * self.block_size
        self._sequences[seq] = state
        return state.reserved

    def reserve(self, seq: Hashable, n_tokens: int) -> list[tuple[int, int]]:
        """Find places for `n_tokens` more positions. Returns the copies to make first: [(from block, to block)].

        A copy is due when the last block is partly filled and shared: the one who writes gets a copy of its own.
        Raises OutOfBlocks, and changes nothing, when there are not enough.
        """
        state = self._get(seq)
        n_tokens = whole("n_tokens", n_tokens)
        new = self.blocks_for(state.reserved + n_tokens) - len(state.blocks)
        last_is_partial = state.reserved % self.block_size != 0
        copy = n_tokens > 0 and last_is_partial and self._references[state.blocks[-1]] > 1
        if new + copy > self.n_free:
            raise OutOfBlocks(f"{new + copy} blocks are needed and {self.n_free} are free")
        copies = []
        if copy:
            old, own = state.blocks[-1], self._new()
            copies.append((old, own))
            self._references[old] -= 1  # others use it still
            state.blocks[-1] = own
        state.blocks += [self._new() for _ in range(new)]
        state.reserved += n_tokens
        return copies

    def commit(self, seq: Hashable, tokens: Sequence[int]) -> None:
        """Say that the values of all these tokens, the sequence's first ones, are written now.

        Only then can its full blocks be found by others. Raises ValueError for more tokens than have a place.
        """
        state = self._get(seq)
        if len(tokens) > state.reserved:
            raise ValueError(f"{len(tokens)} tokens are written, but only {state.reserved} have a place")
        if not self.prefix_caching:
            return
        for index in range(len(state.digests), len(tokens) // self.block_size):
            before = state.digests[-1] if state.digests else state.root
            digest = _digest(before, tokens[index * self.block_size : (index + 1) * self.block_size])
            state.digests.append(digest)
            block = state.blocks[index]
            if digest not in self._by_digest and block not in self._digest_of:  # else its twin is known already
                self._by_digest[digest] = block
                self._digest_of[block] = digest

    def fork(self, parent: Hashable, child: Hashable) -> None:
        """Begin `child` as a copy of `parent` that shares all its blocks."""
        if child in self._sequences:
            raise ValueError(f"sequence {child!r} exists already")
        source = self._get(parent)
        for block in source.blocks:
            self._references[block] += 1
        self._sequences[child] = _Sequence(list(source.blocks), source.reserved, list(source.digests), source.root)

    def free(self, seq: Hashable) -> None:
        """End a sequence. Blocks that nobody else uses become free; full ones can still be found for a while."""
        state = self._get(seq)
        del self._sequences[seq]
        for block in reversed(state.blocks):  # the end of a sequence is evicted before its beginning
            self._references[block] -= 1
            if self._references[block] == 0:
                if block in self._digest_of:
                    self._unused[block] = self._digest_of[block]
                else:
                    self._empty.append(block)

    def check(self) -> None:
        """Raise AssertionError unless every block is accounted for. For tests, and for the curious."""
        counted = [0] * self.n_blocks
        for state in self._sequences.values():
            assert len(state.blocks) == self.blocks_for(state.reserved), "a table of the wrong length"
            assert len(set(state.blocks)) == len(state.blocks), "a block twice in one table"
            for block in state.blocks:
                counted[block] += 1
        assert counted == self._references, "reference counts are off"
        free = [*self._empty, *self._unused]
        assert len(set(free)) == len(free) and all(counted[block] == 0 for block in free), "a free block is in use"
        assert len(free) + sum(count > 0 for count in counted) == self.n_blocks, "a block is lost"
        assert {digest: block for block, digest in self._digest_of.items()} == self._by_digest, "the index is off"
        assert all(block in self._digest_of for block in self._unused), "an unused block without content"

    def _get(self, seq: Hashable) -> _Sequence:
        if seq not in self._sequences:
            raise ValueError(f"there is no sequence {seq!r}")
        return self._sequences[seq]

    def _take(self, block: int) -> None:
        self._unused.pop(block, None)
        self._references[block] += 1

    def _new(self) -> int:
        if self._empty:
            block = self._empty.popleft()
        else:
            block, digest = self._unused.popitem(last=False)
            del self._by_digest[digest], self._digest_of[block]
        self._references[block] = 1
        return block


def _digest(before: bytes, tokens: Sequence[int]) -> bytes:
    return hashlib.sha256(before + array("q", tokens).tobytes()).digest()
