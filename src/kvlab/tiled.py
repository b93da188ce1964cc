"""Attention tile by tile: exact, without ever holding a score for every pair of positions.

Softmax needs the largest score and the sum of a whole row, but both can be kept up to date: when a tile brings a larger
score, what was summed so far is scaled down (Milakov and Gimelshein, 2018, arXiv 1805.02867; FlashAttention: Dao et al.,
2022, arXiv 2205.14135). `largest_intermediate` shows what a function really makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kvlab.validate import whole


def online_softmax_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_size: int, key_mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Causal attention, (H, n, d) each, in tiles of at most block_size x block_size scores per head.

    The largest tensor made has H x max(block_size², n x d) numbers. Sums are kept in float32 at least; the result has
    the dtype of q. key_mask: bool (n,), False = padding that nobody may attend to; a position that is left with no key
    at all raises ValueError, where softmax would give NaN.
    """
    _check(q, k, v)
    n, block = q.shape[1], whole("block_size", block_size, least=1)
    if key_mask is not None:
        _check_keys(key_mask, n)
    real = torch.promote_types(q.dtype, torch.float32)
    out = q.new_empty(*q.shape[:2], v.shape[2])
    for first in range(0, n, block):
        rows = q[:, first : first + block].to(real) / math.sqrt(q.shape[2])
        out[:, first : first + block] = _row_of_tiles(rows, k, v, first, block, key_mask)
    return out


def _row_of_tiles(
    rows: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int, block: int, key_mask: torch.Tensor | None
) -> torch.Tensor:
    """Attention of the queries `rows` (H, m, d), positions `first` onward, over all keys up to their own."""
    n_heads, m, _ = rows.shape
    largest = rows.new_full((n_heads, m, 1), -torch.inf)
    total = rows.new_zeros(n_heads, m, 1)
    mixed = rows.new_zeros(n_heads, m, v.shape[2])
    for start in range(0, first + m, block):
        end = min(start + block, first + m)
        scores = rows @ k[:, start:end].to(rows.dtype).transpose(1, 2)
        if end > first:  # the diagonal: the only tile that a causal mask cuts
            hidden = torch.arange(start, end) > torch.arange(first, first + m)[:, None]
            scores.masked_fill_(hidden.to(scores.device), -torch.inf)
        if key_mask is not None:
            scores.masked_fill_(~key_mask[start:end], -torch.inf)
        new_largest = torch.maximum(largest, scores.amax(-1, keepdim=True))
        # Where no key was seen yet both are -inf; 0 in their place keeps exp(-inf) = 0 instead of NaN.
        finite = new_largest.masked_fill(new_largest == -torch.inf, 0)
        scale = rescaling(largest, finite)
        weights = (scores - finite).exp_()
        total = total * scale + weights.sum(-1, keepdim=True)
        mixed = mixed * scale + weights @ v[:, start:end].to(rows.dtype)
        largest = new_largest
    return mixed / total


def rescaling(largest: torch.Tensor, new_largest: torch.Tensor) -> torch.Tensor:
    """What sums made with the old maximum are multiplied by, once a larger one is known."""
    return (largest - new_largest).exp()


@dataclass(frozen=True)
class Largest:
    """The largest tensor that a call made: shape, bytes, and the torch operation; `result` is what the call returned."""

    shape: tuple[int, ...]
    nbytes: int
    op: str
    result: Any

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def largest_intermediate(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Largest:
    """Call `fn` and watch every torch operation: the largest tensor that any of them made, the result included.

    Views of existing memory do not count, nor do the arguments. What happens inside one compiled operation is not seen:
    a fused attention kernel shows its output only, which is the point of fusing it.
    """
    with _Watch() as watch:
        result = fn(*args, **kwargs)
    return Largest(watch.shape, watch.nbytes, watch.op, result)


class _Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.shape: tuple[int, ...] = ()
        self.nbytes, self.op = 0, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {_memory(t) for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and _memory(tensor) not in given:
                size = tensor.untyped_storage().nbytes()
                if size > self.nbytes:
                    self.shape, self.nbytes, self.op = tuple(tensor.shape), size, str(func)
        return result


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    if not all(isinstance(t, torch.Tensor) and t.dim() == 3 and t.is_floating_point() for t in (q, k, v)):
        raise ValueError("q, k and v must be float tensors of shape (heads, n, d)")
    if q.shape != k.shape or q.shape[:2] != v.shape[:2]:
        shapes = ", ".join(str(tuple(t.shape)) for t in (q, k, v))
        raise ValueError(f"q, k and v must hold the same heads and positions, and q and k one width, got {shapes}")


def _check_keys(key_mask: torch.Tensor, n: int) -> None:
    if not isinstance(key_mask, torch.Tensor) or key_mask.dtype != torch.bool or tuple(key_mask.shape) != (n,):
        raise ValueError(f"key_mask must be a bool tensor of shape ({n},), True = may be attended to")
    if n and not bool(key_mask[0]):
        masked = int(key_mask.int().argmax()) if bool(key_mask.any()) else n
        raise ValueError(
            f"the first {masked} position(s) may attend to no key at all, since every key up to them is masked, and "
            f"softmax of nothing is NaN: leave padded rows out, or let each see at least itself"
        )
