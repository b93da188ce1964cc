"""A cache in 8 or 4 bits: a half or a quarter of the bytes of 16-bit values, plus the scales, for a small rounding error.

V is rounded per token: each row of d_head numbers has a scale of its own. K can be rounded so too, or per channel:
`group` neighbouring tokens of one channel share a scale. A few channels of K are large for all tokens, and per token
one of them would spoil the precision of the whole row (Liu et al., 2024, KIVI, arXiv 2402.02750). A channel's group is
rounded when its last token is there; the newest tokens, whose group is unfinished, stay in full precision.

KIVI rounds between a group's smallest and largest value; here the scale is symmetric, as in `kvlab.quantize`.
"""

from __future__ import annotations

import numpy as np
import torch

from kvlab.cache import Layout, check_layer, check_room, check_truncation, check_update
from kvlab.config import ModelConfig
from kvlab.quantize import pack_int4, quantize_rows, unpack_int4
from kvlab.validate import whole

KEYS = ("channel", "token")


class QuantisedCache:
    """K and V as codes of `bits` (8 or 4) with float32 scales. It saves memory, not time: every read makes floats again.

    A layer gets back what the cache holds, rounded, for the new positions too. With `keys="channel"` the newest
    length % group keys are exact, so chunks of another size can round a key earlier or later.
    """

    def __init__(
        self,
        config: ModelConfig,
        bits: int = 8,
        keys: str = "channel",
        group: int = 32,
        max_len: int | None = None,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if bits not in (4, 8):
            raise ValueError(f"bits must be 4 or 8, got {bits!r:.60}")
        if keys not in KEYS:
            raise ValueError(f"keys must be one of {', '.join(KEYS)}, got {keys!r:.60}")
        if not dtype.is_floating_point:
            raise ValueError(f"dtype is that of the numbers that come in and go out, a floating one, not {dtype}")
        self.bits, self.keys = int(bits), keys
        self.group = whole("group", group, least=1) if keys == "channel" else 1
        if keys == "channel" and bits == 4 and self.group % 2:
            raise ValueError(f"two codes of 4 bits share a byte, so group must be even, got {group}")
        self.max_len = config.max_len if max_len is None else whole("max_len", max_len, least=1)
        if self.max_len > config.max_len:
            raise ValueError(f"max_len must be at most the model's window of {config.max_len}, got {max_len}")
        batch, heads, width = whole("batch", batch, least=1), config.n_kv_heads, config.d_head
        rows = (self.max_len, 1, width)
        k_rows = rows if keys == "token" else (self.max_len // self.group, width, self.group)
        layers = range(config.n_layers)
        self._k = [_Codes((batch, heads, *k_rows), self.bits) for _ in layers]
        self._v = [_Codes((batch, heads, *rows), self.bits) for _ in layers]
        empty = torch.empty(batch, heads, 0, width, dtype=dtype, device=device)
        self._rest = [empty for _ in layers]  # keys of the unfinished group
        self._before = [(0, empty) for _ in layers]  # where the last update began, and the rest that it found
        self._lengths = [0] * config.n_layers
        self._layout = Layout(config.n_layers, batch, heads, width, dtype, empty.device)

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def length(self) -> int:
        return min(self._lengths)

    @property
    def nbytes(self) -> int:
        """Bytes of the positions that are held: codes, scales, and the keys in full precision.

        Equal to `kvlab.arithmetic.quantised_kv_bytes`. The rest before the last update, kept to take it back, is extra.
        """
        codes = sum(
            k.nbytes(self._finished(length)) + v.nbytes(length)
            for k, v, length in zip(self._k, self._v, self._lengths, strict=True)
        )
        return codes + sum(rest.numel() * rest.element_size() for rest in self._rest)

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        check_update(self._layout, layer, k, v)
        start = self._lengths[layer]
        check_room(start, k.shape[2], self.max_len)
        if not (torch.isfinite(k).all() and torch.isfinite(v).all()):
            raise ValueError("k or v holds NaN or inf, which no code stands for")
        waiting = torch.cat([self._rest[layer], k.detach()], dim=2)
        ready = waiting.shape[2] // self.group * self.group
        new_k = self._k[layer].round(self._grouped(waiting[:, :, :ready]))
        new_v = self._v[layer].round(v.detach().unsqueeze(3))
        self._before[layer] = (start, self._rest[layer])
        self._k[layer].write(self._finished(start), new_k)
        self._v[layer].write(start, new_v)
        self._rest[layer] = waiting[:, :, ready:].clone()
        self._lengths[layer] = start + k.shape[2]
        return self.view(layer)

    def view(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of one layer as floats, each (batch, n_kv_heads, length, d_head). They are copies."""
        check_layer(layer, self._layout.n_layers)
        keys = self._keys(layer, 0, self._finished(self._lengths[layer]))
        values = self._float(self._v[layer].read(0, self._lengths[layer])).squeeze(3)
        return torch.cat([keys, self._rest[layer]], dim=2), values

    def truncate(self, length: int) -> None:
        """Forget every position from `length` on. Back to where the last update began, it is undone exactly.

        A cut through a finished group of keys leaves its first tokens as they were held, rounded; they are rounded
        once more when the group is full again.
        """
        length = check_truncation(length, max(self._lengths))
        for layer, held in enumerate(self._lengths):
            if held <= length:
                continue
            start, rest_before = self._before[layer]
            first = self._finished(length) * self.group
            if start == length:
                self._rest[layer] = rest_before
            elif self._finished(held) * self.group == first:
                self._rest[layer] = self._rest[layer][:, :, : length - first]
            else:
                self._rest[layer] = self._keys(layer, first // self.group, first // self.group + 1)[
                    :, :, : length - first
                ]
            self._lengths[layer] = length

    def _finished(self, length: int) -> int:
        """Groups of keys that are rounded when `length` positions are held."""
        return length // self.group

    def _grouped(self, k: torch.Tensor) -> torch.Tensor:
        """(B, H, n, d) -> rows that share a scale: (B, H, n, 1, d) per token, (B, H, n / group, d, group) per channel."""
        if self.keys == "token":
            return k.unsqueeze(3)
        return k.unflatten(2, (k.shape[2] // self.group, self.group)).transpose(3, 4)

    def _keys(self, layer: int, first: int, last: int) -> torch.Tensor:
        """The keys of finished groups as floats, (B, H, positions, d)."""
        rows = self._float(self._k[layer].read(first, last))
        return (rows if self.keys == "token" else rows.transpose(3, 4)).flatten(2, 3)

    def _float(self, rows: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(rows).to(self._layout.device, self._layout.dtype)


class _Codes:
    """Rounded rows in preallocated room: (batch, heads, n, rows, columns), one scale for each row of columns."""

    def __init__(self, shape: tuple[int, ...], bits: int) -> None:
        self.bits, self.columns = bits, shape[-1]
        width = self.columns if bits == 8 else self.columns // 2
        self.codes = np.zeros((*shape[:-1], width), dtype=np.int8 if bits == 8 else np.uint8)
        self.scales = np.ones(shape[:-1], dtype=np.float32)

    def round(self, values: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Codes and scales of (batch, heads, n, rows, columns); nothing is stored."""
        lead = tuple(values.shape[:-1])
        if values.numel() == 0:
            return np.zeros((*lead, self.codes.shape[-1]), self.codes.dtype), np.ones(lead, np.float32)
        codes, scales = quantize_rows(values.reshape(-1, self.columns), self.bits)
        if self.bits == 4:
            codes = pack_int4(codes.reshape(-1))
        return codes.reshape(*lead, -1), scales.reshape(lead)

    def write(self, first: int, rounded: tuple[np.ndarray, np.ndarray]) -> None:
        last = first + rounded[0].shape[2]
        self.codes[:, :, first:last], self.scales[:, :, first:last] = rounded

    def read(self, first: int, last: int) -> np.ndarray:
        """Floats (batch, heads, last - first, rows, columns)."""
        codes, scales = self.codes[:, :, first:last], self.scales[:, :, first:last]
        if self.bits == 4:
            shape = (*codes.shape[:-1], self.columns)
            codes = unpack_int4(codes.reshape(-1), int(np.prod(shape))).reshape(shape)
        return codes.astype(np.float32) * scales[..., None]

    def nbytes(self, n: int) -> int:
        """Bytes of the first `n`, codes and scales."""
        return self.codes[:, :, :n].nbytes + self.scales[:, :, :n].nbytes
