"""Many tokens at once: torch's matrix products over the decode step's weights, and compiled loops between them.

Each thread takes its own positions through the whole model and calls torch for them alone, on one thread. So no product
waits for a loop or the other way round, and torch's own threads, which keep a core busy for a while after each call,
are not in the way. The threads meet twice per layer: attention needs the keys of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F

from kvlab.cache import PreallocatedCache
from kvlab.fast import rows
from kvlab.fast.kernels import wait_for_all
from kvlab.fast.step import Matrix
from kvlab.fast.weights import as_array, as_tensor

if TYPE_CHECKING:
    from kvlab.fast.llama import FastLlama

TILE = 128  # positions whose scores are held at once: small enough for the processor's cache
SHARED = 64  # positions from which on sharing them is worth it


class Pass:
    """One prefill: memory for all its positions, and `share`, which a thread runs for its own."""

    def __init__(self, model: FastLlama, ids: torch.Tensor, cache: PreallocatedCache, last_only: bool) -> None:
        config, dtype, n = model.config, model.dtype, len(ids)
        self.model, self.cache, self.start, self.last_only = model, cache, cache.length, last_only
        self.threads = 1 if n < SHARED else model.threads
        self.x = model.embed(ids).numpy()  # the residual stream, never rounded to the width of the products
        self.y = torch.zeros(n, config.d_model, dtype=dtype)
        self.q = torch.empty(config.n_kv_heads, n, config.group_size, config.d_head, dtype=dtype)
        self.mixed = torch.empty(n, config.n_heads * config.d_head, dtype=dtype)
        self.room = np.zeros((self.threads, max(2 * config.d_head, self.start + n)), self.x.dtype)

    def run(self) -> torch.Tensor:
        """Logits (n, vocab_size), or (1, vocab_size) of the last position; the cache then holds the new ones."""
        before = torch.get_num_threads()
        try:
            if self.threads > 1:
                torch.set_num_threads(1)
            self.model.team.run(self.share, alone=self.threads == 1)
        finally:
            if self.threads > 1:
                torch.set_num_threads(before)
        dtype, config = self.model.dtype, self.model.config
        normed = torch.empty(len(self.y), config.d_model, dtype=dtype)
        norm = self.model.weights.norms[-1]
        rows.add_normalise(self.x, as_array(self.y), norm, config.norm_eps, as_array(normed))
        logits = product(normed[-1:] if self.last_only else normed, self.model.weights.head, 0, dtype)
        self.cache.set_length(self.start + len(self.y))
        return logits if dtype == torch.float64 else logits.float()

    @torch.no_grad()
    def share(self, t: int) -> None:
        """Positions t * n / threads to (t + 1) * n / threads."""
        if t > 0 and torch.get_num_threads() > 1:  # the number belongs to the thread that sets it
            torch.set_num_threads(1)
        config, w, dtype, threads = self.model.config, self.model.weights, self.model.dtype, self.threads
        own = slice(t * len(self.y) // threads, (t + 1) * len(self.y) // threads)
        x, y, q, mixed = self.x[own], self.y[own], self.q[:, own], self.mixed[own]
        normed, hidden = torch.empty_like(y), torch.empty(len(y), config.d_ff, dtype=dtype)
        one = x.dtype.type(1)
        counter, goal = self.model.team.counter, 0
        all_keys, all_values = self.cache.storage
        for layer in range(config.n_layers):
            keys, values = all_keys[layer, 0], all_values[layer, 0]
            rows.add_normalise(x, as_array(y), w.norms[2 * layer], config.norm_eps, as_array(normed))
            qkv = as_array(product(normed, w.qkv, layer, dtype))
            room = self.room[t]
            rows.split_turn(
                qkv, w.cos, w.sin, self.start + own.start, as_array(q), as_array(keys), as_array(values), room
            )
            goal += threads
            wait_for_all(counter, goal)

            # Tiles are dealt out like cards, since later ones see more keys.
            for first in range(t * TILE, len(self.y), threads * TILE):
                self.attend(keys, values, first, room)
            goal += threads
            wait_for_all(counter, goal)

            y.copy_(product(mixed, w.out, layer, dtype))
            rows.add_normalise(x, as_array(y), w.norms[2 * layer + 1], config.norm_eps, as_array(normed))
            rows.gated(as_array(product(normed, w.gate_up, layer, dtype)), as_array(hidden), one)
            y.copy_(product(hidden, w.down, layer, dtype))

    def attend(self, keys: torch.Tensor, values: torch.Tensor, first: int, room: np.ndarray) -> None:
        """Causal attention of a tile of positions over all held ones.

        The group's query heads are rows of one product with their keys. Only keys up to the tile's last position are
        touched, so that half of the square is never computed.
        """
        n_kv, n, group, d = self.q.shape
        end = min(first + TILE, n)
        seen = self.start + end
        lines = self.q[:, first:end].reshape(n_kv, (end - first) * group, d)
        scores = torch.bmm(lines, keys[:, :seen].transpose(1, 2))
        totals = np.empty((n_kv, end - first, group), room.dtype)
        scale = room.dtype.type(d**-0.5)
        by_position = as_array(scores.view(n_kv, end - first, group, seen))
        rows.softmax(by_position, totals, self.start + first, scale, room)
        mixed = as_array(torch.bmm(scores, values[:, :seen]).view(n_kv, end - first, group, d))
        rows.divide(mixed, totals, as_array(self.mixed[first:end]))


def product(x: torch.Tensor, matrix: Matrix, layer: int, dtype: torch.dtype) -> torch.Tensor:
    """x times the transpose of one layer's matrix."""
    return F.linear(x, dense(matrix, layer, dtype)[:, : x.shape[1]])  # int4 rows may be padded


def dense(matrix: Matrix, layer: int, dtype: torch.dtype) -> torch.Tensor:
    """One layer's matrix as a tensor: its own memory in float formats, else weights made from codes and scales."""
    codes, scales = as_tensor(matrix.codes)[layer], torch.from_numpy(matrix.scales)[layer]
    if codes.dtype == torch.int8:
        return (codes * scales).to(dtype)
    if codes.dtype == torch.uint8:
        nibbles = torch.stack([codes & 15, codes >> 4], 2).flatten(1)
        signed = (nibbles ^ 8).to(dtype) - 8
        return (signed.unflatten(1, (scales.shape[1], -1)) * scales[:, :, None].to(dtype)).flatten(1)
    return codes
