"""The memory of the paged cache: one pool of blocks per layer, and attention that reads it through block tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from kvlab import attention
from kvlab.cache import Layout
from kvlab.room import check_room_for
from kvlab.validate import whole


class PagedPool:
    """K and V of all sequences: (n_layers, n_blocks, block_size, n_kv_heads, d_head) each.

    A slot is block * block_size + place in the block. Raises ValueError for sizes below 1, and for a
    pool that is larger than the free memory.
    """

    def __init__(self, layout: Layout, n_blocks: int, block_size: int) -> None:
        self.n_blocks = whole("n_blocks", n_blocks, least=1)
        self.block_size = whole("block_size", block_size, least=1)
        shape = (layout.n_layers, self.n_blocks, self.block_size, layout.n_kv_heads, layout.d_head)
        n_bytes = 2 * math.prod(shape) * (layout.dtype or torch.get_default_dtype()).itemsize
        sizes = f"a pool of {self.n_blocks} blocks of {self.block_size} positions"
        check_room_for(sizes, n_bytes, "choose fewer or smaller blocks", layout.device)
        self.k = torch.zeros(shape, dtype=layout.dtype, device=layout.device)
        self.v = torch.zeros_like(self.k)

    @property
    def nbytes(self) -> int:
        """Bytes taken from the machine, used or not."""
        return 2 * self.k.numel() * self.k.element_size()

    @property
    def bytes_per_position(self) -> int:
        """K and V of one position in all layers."""
        return self.nbytes // (self.n_blocks * self.block_size)

    def write(self, layer: int, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store new positions: slots (T,), k and v (T, n_kv_heads, d_head)."""
        self.k[layer].flatten(0, 1)[slots] = k
        self.v[layer].flatten(0, 1)[slots] = v

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, in every layer: [(from, to)]. For copy-on-write."""
        for source, target in copies:
            self.k[:, target] = self.k[:, source]
            self.v[:, target] = self.v[:, source]

    def clear(self, blocks: Sequence[int]) -> None:
        """Zero whole blocks, in every layer, before their first use by a sequence.

        What was left in them is masked, but a mask does not stop NaN: its product with 0 is NaN again.
        """
        if blocks:
            self.k[:, blocks] = 0
            self.v[:, blocks] = 0

    def gather(self, layer: int, table: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of one sequence in order, (length, n_kv_heads, d_head) each, through its block table."""
        return paged_gather(self.k[layer], table, length), paged_gather(self.v[layer], table, length)


def paged_gather(pool: torch.Tensor, block_table: torch.Tensor | Sequence[int], length: int) -> torch.Tensor:
    """The first `length` positions of a sequence: pool (n_blocks, block_size, H, d) -> (length, H, d).

    Raises ValueError when the table is too short, or names a block that the pool does not have.
    """
    n_blocks, block_size = pool.shape[:2]
    length = whole("length", length)
    table = torch.as_tensor(block_table, dtype=torch.long, device=pool.device)[: -(-length // block_size)]
    if len(table) * block_size < length:
        raise ValueError(f"{len(table)} blocks of {block_size} positions hold less than {length} positions")
    if len(table) and not 0 <= int(table.min()) <= int(table.max()) < n_blocks:
        raise ValueError(f"the pool has blocks 0 to {n_blocks - 1}, but the table names others")
    return pool.index_select(0, table).flatten(0, 1)[:length]


def decode_bias(lengths: torch.Tensor, n_positions: int, dtype: torch.dtype) -> torch.Tensor:
    """What `paged_decode_attention` adds to its scores: 0 up to a sequence's length, -inf behind it.

    lengths (S,) -> (S, 1, 1, n_positions). It is the same in all layers, so a step makes it once.
    """
    hidden = torch.arange(n_positions, device=lengths.device) >= lengths[:, None]
    bias = torch.zeros(hidden.shape, dtype=dtype, device=lengths.device).masked_fill_(hidden, -torch.inf)
    return bias[:, None, None]


def paged_decode_attention(
    q: torch.Tensor, pool_k: torch.Tensor, pool_v: torch.Tensor, tables: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """One query for each of several sequences, each over its own pages.

    q (S, n_heads, d); pools (n_blocks, block_size, n_kv_heads, d); tables (S, blocks), short ones filled up with a
    block of their own; bias: `decode_bias` over blocks x block_size positions, the query's own included. Returns (S, n_heads, d).
    Sequences are padded to the longest in here: that costs reads, but no product of the model.
    """
    n_heads, n_kv_heads = q.shape[1], pool_k.shape[2]
    # index_select copies a block at a time; pool[tables] goes number by number, five times slower on a CPU
    k, v = (
        pool.index_select(0, tables.flatten()).unflatten(0, tables.shape).flatten(1, 2).transpose(1, 2)
        for pool in (pool_k, pool_v)
    )  # (S, n_kv_heads, L, d)
    rows = q.unflatten(1, (n_kv_heads, n_heads // n_kv_heads))  # the query heads of a KV head read it together
    return F.scaled_dot_product_attention(rows, k, v, attn_mask=bias).flatten(1, 2)


def paged_chunk_attention(
    q: torch.Tensor, pool_k: torch.Tensor, pool_v: torch.Tensor, table: torch.Tensor, length: int
) -> torch.Tensor:
    """The last n positions of one sequence over its pages, causal: q (n, n_heads, d) -> (n, n_heads, d)."""
    k, v = (paged_gather(pool, table, length).transpose(0, 1)[None] for pool in (pool_k, pool_v))
    return attention.attend(q.transpose(0, 1)[None], k, v)[0].transpose(0, 1)
