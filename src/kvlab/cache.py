"""KV caches: what has been computed for the past and must not be computed again.

A cache holds, for every layer, K and V of shape (batch, n_kv_heads, length, d_head). Both are stored after RoPE,
so a position never has to be turned again. Queries are not stored: a query is used in its own step only.
"""

from typing import Protocol

import torch

from kvlab.config import ModelConfig


class KVCache(Protocol):
    """What the model needs of a cache."""

    max_len: int

    @property
    def length(self) -> int:
        """Positions held by every layer (the last layer's count: a step fills the layers in order)."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes taken by the positions that are held, both K and V."""
        ...

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store (B, n_kv_heads, n, d_head) of new positions, return all that the layer holds."""
        ...

    def truncate(self, length: int) -> None:
        """Forget every position from `length` on."""
        ...


class GrowingCache:
    """Append by concatenation: the shortest thing that works. Every step copies everything held so far."""

    def __init__(self, config: ModelConfig, batch: int = 1) -> None:
        self.max_len = config.max_len
        self.batch = batch
        self._n_layers = config.n_layers
        self._k: list[torch.Tensor] = []
        self._v: list[torch.Tensor] = []

    @property
    def length(self) -> int:
        return self._k[-1].shape[2] if len(self._k) == self._n_layers else 0

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in [*self._k, *self._v])

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        held = self._k[layer].shape[2] if layer < len(self._k) else 0
        check_room(held, k.shape[2], self.max_len)
        if layer == len(self._k):
            self._k.append(k)
            self._v.append(v)
        else:
            self._k[layer] = torch.cat([self._k[layer], k], dim=2)
            self._v[layer] = torch.cat([self._v[layer], v], dim=2)
        return self._k[layer], self._v[layer]

    def truncate(self, length: int) -> None:
        check_truncation(length, self.length)
        self._k = [k[:, :, :length] for k in self._k]
        self._v = [v[:, :, :length] for v in self._v]


class PreallocatedCache:
    """All the room at once, written in place: no copy, no new memory, and a view instead of a result."""

    def __init__(
        self,
        config: ModelConfig,
        max_len: int | None = None,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.max_len = max_len or config.max_len
        if not 1 <= self.max_len <= config.max_len:
            raise ValueError(f"max_len must be between 1 and the model's window {config.max_len}, got {max_len}")
        self.batch = batch
        shape = (config.n_layers, batch, config.n_kv_heads, self.max_len, config.d_head)
        self._k = torch.zeros(shape, dtype=dtype, device=device)
        self._v = torch.zeros_like(self._k)
        self._lengths = [0] * config.n_layers

    @property
    def length(self) -> int:
        return self._lengths[-1]

    @property
    def nbytes(self) -> int:
        per_position = self._k[0, :, :, 0].numel() * self._k.element_size()
        return 2 * per_position * sum(self._lengths)

    @property
    def reserved_bytes(self) -> int:
        """Bytes taken from the machine, used or not."""
        return 2 * self._k.numel() * self._k.element_size()

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        start, end = self._lengths[layer], self._lengths[layer] + k.shape[2]
        check_room(start, k.shape[2], self.max_len)
        self._k[layer, :, :, start:end] = k
        self._v[layer, :, :, start:end] = v
        self._lengths[layer] = end
        return self.view(layer)

    def view(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V held by one layer, each (batch, n_kv_heads, length, d_head), without a copy."""
        end = self._lengths[layer]
        return self._k[layer, :, :, :end], self._v[layer, :, :, :end]

    def truncate(self, length: int) -> None:
        check_truncation(length, self.length)
        self._lengths = [min(n, length) for n in self._lengths]


def check_room(held: int, new: int, max_len: int) -> None:
    """ValueError when `new` more positions do not fit; called before anything is written."""
    if held + new > max_len:
        raise ValueError(
            f"the cache holds {held} of {max_len} positions, so {new} more do not fit: "
            f"shorten the prompt, generate fewer tokens, or make a larger cache"
        )


def check_truncation(length: int, held: int) -> None:
    if not 0 <= length <= held:
        raise ValueError(f"can keep between 0 and {held} positions, not {length}")
