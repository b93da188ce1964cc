"""KV caches: what has been computed for the past and must not be computed again.

A cache holds, for every layer, K and V of shape (batch, n_kv_heads, length, d_head). Both are stored after RoPE,
so a position never has to be turned again. Queries are not stored: a query is used in its own step only.
An update is checked before anything is written, so a call that fails leaves the cache as it was.
"""

from typing import NamedTuple, Protocol

import torch

from kvlab.config import ModelConfig
from kvlab.validate import whole


class Layout(NamedTuple):
    """What a cache and its model must agree on. dtype and device are None while a cache takes any."""

    n_layers: int
    batch: int
    n_kv_heads: int
    d_head: int
    dtype: torch.dtype | None = None
    device: torch.device | None = None


class KVCache(Protocol):
    """What the model needs of a cache."""

    max_len: int

    @property
    def layout(self) -> Layout:
        """What `update` takes."""
        ...

    @property
    def length(self) -> int:
        """Positions held by every layer."""
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
        self._shape = Layout(config.n_layers, whole("batch", batch, least=1), config.n_kv_heads, config.d_head)
        self._k: dict[int, torch.Tensor] = {}  # by layer
        self._v: dict[int, torch.Tensor] = {}

    @property
    def layout(self) -> Layout:
        """The shape of its model; dtype and device are those of what it holds."""
        for k in self._k.values():
            return self._shape._replace(dtype=k.dtype, device=k.device)
        return self._shape

    @property
    def length(self) -> int:
        return min(v.shape[2] for v in self._v.values()) if len(self._v) == self._shape.n_layers else 0

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in [*self._k.values(), *self._v.values()])

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        check_update(self.layout, layer, k, v)
        check_room(self._k[layer].shape[2] if layer in self._k else 0, k.shape[2], self.max_len)
        if layer in self._k:
            k, v = torch.cat([self._k[layer], k], dim=2), torch.cat([self._v[layer], v], dim=2)
        else:
            k, v = k.clone(), v.clone()  # what the caller does with its own tensors later stays outside
        self._k[layer], self._v[layer] = k, v
        return k, v

    def truncate(self, length: int) -> None:
        length = check_truncation(length, max((k.shape[2] for k in self._k.values()), default=0))
        # with nothing left, any dtype and device will do again
        self._k = {layer: k[:, :, :length] for layer, k in self._k.items() if length}
        self._v = {layer: v[:, :, :length] for layer, v in self._v.items() if length}


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
        self.max_len = config.max_len if max_len is None else whole("max_len", max_len, least=1)
        if self.max_len > config.max_len:
            raise ValueError(f"max_len must be at most the model's window of {config.max_len}, got {max_len}")
        batch = whole("batch", batch, least=1)
        shape = (config.n_layers, batch, config.n_kv_heads, self.max_len, config.d_head)
        self._k = torch.zeros(shape, dtype=dtype, device=device)
        self._v = torch.zeros_like(self._k)
        self._lengths = [0] * config.n_layers
        self._layout = Layout(config.n_layers, batch, config.n_kv_heads, config.d_head, dtype, self._k.device)

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def length(self) -> int:
        return min(self._lengths)

    @property
    def nbytes(self) -> int:
        per_position = self._k[0, :, :, 0].numel() * self._k.element_size()
        return 2 * per_position * sum(self._lengths)

    @property
    def reserved_bytes(self) -> int:
        """Bytes taken from the machine, used or not."""
        return 2 * self._k.numel() * self._k.element_size()

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        check_update(self._layout, layer, k, v)
        start, end = self._lengths[layer], self._lengths[layer] + k.shape[2]
        check_room(start, k.shape[2], self.max_len)
        self._k[layer, :, :, start:end] = k
        self._v[layer, :, :, start:end] = v
        self._lengths[layer] = end
        return self.view(layer)

    def view(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V held by one layer, each (batch, n_kv_heads, length, d_head), without a copy."""
        check_layer(layer, self._layout.n_layers)
        end = self._lengths[layer]
        return self._k[layer, :, :, :end], self._v[layer, :, :, :end]

    def truncate(self, length: int) -> None:
        length = check_truncation(length, max(self._lengths))
        self._lengths = [min(n, length) for n in self._lengths]

    @property
    def storage(self) -> tuple[torch.Tensor, torch.Tensor]:
        """All the room for K and for V, each (n_layers, batch, n_kv_heads, max_len, d_head), for kernels that write there."""
        return self._k, self._v

    def set_length(self, length: int) -> None:
        """Every layer holds `length` positions: for kernels that have filled them through `storage`."""
        if not 0 <= length <= self.max_len:
            raise ValueError(f"length must be from 0 to {self.max_len}, got {length}")
        self._lengths = [length] * self._layout.n_layers


def check_layer(layer: int, n_layers: int) -> None:
    if not 0 <= layer < n_layers:
        raise ValueError(f"there is no layer {layer}: layers are 0 to {n_layers - 1}")


def check_update(layout: Layout, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
    """ValueError unless k and v are new positions of this layer; called before anything is written.

    Without it torch would stretch a short axis, turn one dtype into another and count layer -1 from the end.
    """
    check_layer(layer, layout.n_layers)
    shape = k.shape
    if len(shape) != 4 or shape != (layout.batch, layout.n_kv_heads, shape[2], layout.d_head) or v.shape != shape:
        raise ValueError(
            f"k and v must both be (batch {layout.batch}, KV heads {layout.n_kv_heads}, n, head width "
            f"{layout.d_head}) with one n, got {tuple(shape)} and {tuple(v.shape)}"
        )
    if k.dtype != v.dtype or k.device != v.device:
        raise ValueError(f"k is {k.dtype} on {k.device}, but v is {v.dtype} on {v.device}: both must be alike")
    if layout.dtype is not None and (k.dtype != layout.dtype or k.device != layout.device):
        raise ValueError(f"this cache holds {layout.dtype} on {layout.device}, so {k.dtype} on {k.device} does not fit")


def check_fits(cache: KVCache, wanted: Layout) -> None:
    """ValueError, with what differs, when a cache was made for another model or another batch."""
    if cache.layout == wanted:
        return
    for name, has, needs in zip(Layout._fields, cache.layout, wanted, strict=True):
        if has is not None and has != needs:
            raise ValueError(
                f"this cache does not fit the model: its {name} is {has}, here {needs} is needed. "
                f"Make it with this model's config, batch size, dtype and device"
            )


def check_room(held: int, new: int, max_len: int) -> None:
    """ValueError when `new` more positions do not fit; called before anything is written."""
    if held + new > max_len:
        raise ValueError(
            f"the cache holds {held} of {max_len} positions, so {new} more do not fit: "
            f"shorten the prompt, generate fewer tokens, or make a larger cache"
        )


def check_truncation(length: int, longest: int) -> int:
    """`length` as an int; ValueError unless it lies between 0 and what the longest layer holds."""
    number = whole("length", length)
    if number > longest:
        raise ValueError(f"can keep between 0 and {longest} positions, not {length}")
    return number
