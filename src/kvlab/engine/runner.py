"""One step of the model for many sequences at once, without padding.

The new tokens of all sequences lie in one row of T. Every product with weights takes that row; only attention looks at
sequences, each over its own pages. So prompts, pieces of prompts and single decode steps mix freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from kvlab.engine.pool import PagedPool, decode_bias, paged_chunk_attention, paged_decode_attention
from kvlab.model import Block, Llama, rotate


class Row(NamedTuple):
    """The new tokens of one sequence: what comes at position `start`, and the table of its blocks."""

    ids: list[int]
    start: int
    table: list[int]

    @property
    def length(self) -> int:
        """Positions of the sequence once these are written."""
        return self.start + len(self.ids)


class _Step(NamedTuple):
    """The same for all layers."""

    positions: torch.Tensor  # (T,)
    slots: torch.Tensor  # (T,)
    decode_at: torch.Tensor  # (S,) where the rows of a single token stand among the T
    decode_tables: torch.Tensor  # (S, blocks of the longest)
    decode_bias: torch.Tensor  # (S, 1, 1, positions of the longest)
    chunks: list[tuple[slice, torch.Tensor, int]]  # where a longer row stands, its table, its length


@torch.no_grad()
def run(model: Llama, pool: PagedPool, rows: Sequence[Row]) -> torch.Tensor:
    """Push the rows through the model and store their K and V. Logits (number of rows, vocab_size) after each row.

    A row reads only blocks of its own table, cleared when they are begun: NaN in one sequence stays there.
    The caller answers for tables with room and for tokens inside the vocabulary.
    """
    step = _prepare(rows, pool, model.device)
    pool.clear(_begun(rows, pool.block_size))
    ids = torch.tensor([token for row in rows for token in row.ids], device=model.device)
    x = model.model.embed_tokens(ids)
    cos, sin = model.cos[step.positions, None], model.sin[step.positions, None]  # (T, 1, d_head)
    for layer, block in enumerate(model.model.layers):
        assert isinstance(block, Block)
        x = x + _attend(block, block.input_layernorm(x), cos, sin, pool, layer, step)
        x = x + block.mlp(block.post_attention_layernorm(x))
    last = torch.tensor([len(row.ids) for row in rows], device=model.device).cumsum(0) - 1
    return model.lm_head(model.model.norm(x[last]))


def _attend(
    block: Block, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pool: PagedPool, layer: int, step: _Step
) -> torch.Tensor:
    """Attention of all rows: x (T, d_model) -> (T, d_model)."""
    weights = block.self_attn
    q, k, v = (
        projection(x).unflatten(-1, (-1, weights.d_head))
        for projection in (weights.q_proj, weights.k_proj, weights.v_proj)
    )
    q = rotate(q, cos, sin)
    pool.write(layer, step.slots, rotate(k, cos, sin), v)
    pool_k, pool_v = pool.k[layer], pool.v[layer]
    out = torch.empty_like(q)
    if len(step.decode_at):
        out[step.decode_at] = paged_decode_attention(
            q[step.decode_at], pool_k, pool_v, step.decode_tables, step.decode_bias
        )
    for where, table, length in step.chunks:
        out[where] = paged_chunk_attention(q[where], pool_k, pool_v, table, length)
    return weights.o_proj(out.flatten(1))


def _begun(rows: Sequence[Row], block_size: int) -> list[int]:
    """The last block of every row that begins it now. Those before it are filled to the end, so nothing old shows."""
    last = [(row.length - 1) // block_size for row in rows]
    return [row.table[n] for row, n in zip(rows, last, strict=True) if row.start <= n * block_size]


def _prepare(rows: Sequence[Row], pool: PagedPool, device: torch.device) -> _Step:
    block_size = pool.block_size
    positions: list[int] = []
    slots: list[int] = []
    chunks: list[tuple[slice, torch.Tensor, int]] = []
    decodes: list[tuple[int, Row]] = []
    for row in rows:
        first = len(positions)
        for position in range(row.start, row.length):
            positions.append(position)
            slots.append(row.table[position // block_size] * block_size + position % block_size)
        if len(row.ids) == 1:
            decodes.append((first, row))
        else:
            chunks.append((slice(first, len(positions)), torch.tensor(row.table, device=device), row.length))
    used = [row.table[: -(-row.length // block_size)] for _, row in decodes]
    widest = max(map(len, used), default=0)
    lengths = torch.tensor([row.length for _, row in decodes], dtype=torch.long, device=device)
    return _Step(
        torch.tensor(positions, device=device),
        torch.tensor(slots, device=device),
        torch.tensor([first for first, _ in decodes], dtype=torch.long, device=device),
        torch.tensor([table + table[:1] * (widest - len(table)) for table in used], dtype=torch.long, device=device),
        decode_bias(lengths, widest * block_size, pool.k.dtype),
        chunks,
    )
