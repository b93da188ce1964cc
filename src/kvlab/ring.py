"""A cache for sliding-window attention: a ring of `window` slots, so memory stays constant however long the text gets.

Position p lives in slot p % window and overwrites position p - window, which no later query may see (Beltagy et al.,
2020, arXiv 2004.05150; Mistral 7B, Jiang et al., 2023, arXiv 2310.06825). K is stored after RoPE, so a key keeps its
true position wherever it lies.
"""

from __future__ import annotations

import math

import torch

from kvlab.cache import Layout, check_layer, check_room, check_update
from kvlab.config import ModelConfig
from kvlab.room import check_room_for
from kvlab.validate import whole


class RingCache:
    """K and V of the last `window` positions. The model then attends over the window and no further.

    A query of a chunk sees its own window, so `update` returns the keys that any query of the chunk may see, oldest
    first. Only the last update can be taken back: what the ring has overwritten before is gone.
    Sizes below 1, and a ring that is larger than the free memory, raise ValueError.
    """

    def __init__(
        self,
        config: ModelConfig,
        window: int,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.window = whole("window", window, least=1)
        self.max_len = config.max_len
        batch = whole("batch", batch, least=1)
        shape = (config.n_layers, batch, config.n_kv_heads, self.window, config.d_head)
        n_bytes = 2 * math.prod(shape) * dtype.itemsize
        advice = "choose a smaller window or batch"
        check_room_for(f"a ring of {self.window} slots", n_bytes, advice, torch.device(device))
        self._k = torch.zeros(shape, dtype=dtype, device=device)
        self._v = torch.zeros_like(self._k)
        self._lengths = [0] * config.n_layers
        self._before: list[tuple[int, torch.Tensor, torch.Tensor] | None] = [None] * config.n_layers
        self._layout = Layout(config.n_layers, batch, config.n_kv_heads, config.d_head, dtype, self._k.device)

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def length(self) -> int:
        """Positions seen so far; the last `window` of them are held."""
        return min(self._lengths)

    @property
    def nbytes(self) -> int:
        """Bytes of the positions that are held: it stops growing at `window` positions."""
        per_position = self._k[0, :, :, 0].numel() * self._k.element_size()
        return 2 * per_position * sum(min(length, self.window) for length in self._lengths)

    def positions(self) -> list[int]:
        """The position that each slot holds, -1 for an empty one."""
        return ring_positions(self.length, self.window)

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store new positions; return K and V of what their queries may see, (B, n_kv_heads, held + n, d_head)."""
        check_update(self._layout, layer, k, v)
        start = self._lengths[layer]
        check_room(start, k.shape[2], self.max_len)
        held_k, held_v = self.view(layer)
        all_k, all_v = torch.cat([held_k, k], dim=2), torch.cat([held_v, v], dim=2)
        end = start + k.shape[2]
        kept = min(k.shape[2], self.window)
        slots = torch.arange(end - kept, end, device=k.device) % self.window
        self._before[layer] = (start, self._k[layer].clone(), self._v[layer].clone())
        self._k[layer][:, :, slots] = k[:, :, -kept:]
        self._v[layer][:, :, slots] = v[:, :, -kept:]
        self._lengths[layer] = end
        return all_k, all_v

    def view(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V that one layer holds, oldest first, (B, n_kv_heads, min(length, window), d_head)."""
        check_layer(layer, self._layout.n_layers)
        length = self._lengths[layer]
        held = torch.arange(max(0, length - self.window), length, device=self._k.device) % self.window
        return self._k[layer][:, :, held], self._v[layer][:, :, held]

    def truncate(self, length: int) -> None:
        """Go back to where the last update began, to nothing, or to any length while nothing was overwritten.

        Raises ValueError for another length: what was overwritten cannot come back.
        """
        length = whole("length", length)
        for layer, held in enumerate(self._lengths):
            before = self._before[layer]
            undo = before is not None and before[0] == length
            if length > max(self._lengths) or not (held <= length or length == 0 or undo or held <= self.window):
                raise ValueError(
                    f"a ring of {self.window} slots that has seen {held} positions cannot go back to {length}"
                )
        for layer, held in enumerate(self._lengths):
            before = self._before[layer]
            if held > length and before is not None and before[0] == length:
                self._k[layer], self._v[layer] = before[1], before[2]
            self._lengths[layer] = min(held, length)


def ring_positions(length: int, window: int) -> list[int]:
    """The position held by each slot of a ring after `length` tokens, -1 for an empty slot."""
    length, window = whole("length", length), whole("window", window, least=1)
    positions = [-1] * window
    for position in range(max(0, length - window), length):
        positions[position % window] = position
    return positions
