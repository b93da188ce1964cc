"""Honest hand-ins in odd clothes. The answers are right, so they must get full marks, unless the text says otherwise (4 of 4)."""

from __future__ import annotations

from hostile.model import (
    EXERCISES,
    Expect,
    Trick,
)
from hostile.oddities_shared import _styles

_ATTENTION = """
import math

import numpy as np
import torch


def cached_attention(q, k, v):
    n_q, n_k, d = q.shape[1], k.shape[1], q.shape[2]
    if n_q > n_k:
        raise ValueError("more queries than keys")
    s = q @ k.transpose(0, 2, 1) / math.sqrt(d)
    s = np.where(np.tril(np.ones((n_q, n_k), dtype=bool), n_k - n_q), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    out = p / p.sum(-1, keepdims=True) @ v
    return RESULT
"""


def _attention_gives(result: str) -> dict[str, str]:
    return {"cached_attention": _ATTENTION.replace("RESULT", result)}


_TORCH_CACHE = """
from typing import NamedTuple

import torch


class Pair(NamedTuple):
    k: torch.Tensor
    v: torch.Tensor


class Base:
    __slots__ = ("store", "lengths")

    def length(self, layer):
        self._layer(layer)
        return self.lengths[layer]

    def _layer(self, layer):
        if layer not in range(len(self.lengths)):
            raise ValueError(f"no layer {layer}")


class KVCache(Base):
    def __init__(self, n_layers, n_kv_heads, max_len, d_head):
        self.store = torch.zeros(2, n_layers, n_kv_heads, max_len, d_head, dtype=torch.float32)
        self.lengths = torch.zeros(n_layers, dtype=torch.long)

    def append(self, layer, k, v):
        self._layer(layer)
        k, v = torch.as_tensor(k), torch.as_tensor(v)
        _, _, heads, room, width = self.store.shape
        start = int(self.lengths[layer])
        if k.dim() != 3 or k.shape != v.shape or (k.shape[0], k.shape[2]) != (heads, width) or start + k.shape[1] > room:
            raise ValueError("does not fit")
        self.store[0, layer, :, start : start + k.shape[1]] = k
        self.store[1, layer, :, start : start + k.shape[1]] = v
        self.lengths[layer] += k.shape[1]

    def view(self, layer):
        self._layer(layer)
        end = int(self.lengths[layer])
        return Pair(self.store[0, layer, :, :end], self.store[1, layer, :, :end])

    def truncate(self, length):
        if not 0 <= length <= self.lengths.max():
            raise ValueError(f"can't keep {length}")
        self.lengths = self.lengths.clamp(max=length)
"""


_THREADS = {
    "positions_processed": """
    from concurrent.futures import ThreadPoolExecutor


    def positions_processed(prompt_len, n_new, cached):
        if prompt_len < 1 or n_new < 0:
            raise ValueError("no")
        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(lambda i: 1 if cached and i else prompt_len + i, range(n_new)))
    """,
}


_FILE = {
    "kv_cache_bytes": """
    import json
    import tempfile
    from pathlib import Path

    Path("notes.txt").write_text("K and V")


    def kv_cache_bytes(*args, **kwargs):
        names = ("n_layers", "n_kv_heads", "d_head", "seq_len", "batch", "bytes_per_value")
        given = {"batch": 1, "bytes_per_value": 2, **dict(zip(names, args)), **kwargs}
        if min(given.values()) < 0:
            raise ValueError("no")
        with tempfile.TemporaryFile("w+") as file:
            json.dump([float(given[name]) for name in names], file)
            file.seek(0)
            total = 2.0
            for factor in json.load(file):
                total *= factor
        return total
    """,
}


_OPEN_KERNELS = {
    "cached_attention": """
    import torch
    from kvlab import arithmetic, attention, cache, model, scratch
    from kvlab.arithmetic import kv_cache_bytes, positions_processed
    from kvlab.attention import cached_attention as theirs, causal_attention, causal_mask


    def cached_attention(q, k, v):
        mask = causal_mask(q.shape[1], k.shape[1]).numpy()  # raises for too many queries
        s = np.where(mask, q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[2]), -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True) @ v
    """,
}


_FIRST_DIES = {
    "positions_processed": """
    import os


    def positions_processed(prompt_len, n_new, cached):
        return -1


    os._exit(0)
    """,
}


_WITHOUT_FIRST = Expect({exercise: "full" for exercise in EXERCISES} | {EXERCISES[0]: "zero"}, flags=("killed",))


TRICKS: tuple[Trick, ...] = (
    _styles(
        "result-torch",
        "The array result is a float32 tensor that wants gradients.",
        _attention_gives("torch.tensor(out, dtype=torch.float32).requires_grad_(True)"),
    ),
    _styles("result-lists", "The array result is nested lists.", _attention_gives("out.tolist()")),
    _styles(
        "result-fortran",
        "The array result is in Fortran order and read-only.",
        _attention_gives("(out := np.asfortranarray(out), out.setflags(write=False))[0]"),
    ),
    _styles("result-big-endian", "The array result is big-endian.", _attention_gives("out.astype('>f8')")),
    _styles(
        "result-longdouble", "The array result is in extended precision.", _attention_gives("out.astype(np.longdouble)")
    ),
    _styles(
        "result-tuple-of-arrays",
        "The array result is a list of arrays, one per head.",
        _attention_gives("[head for head in out]"),
    ),
    _styles(
        "class-torch-slots",
        "KVCache on float32 tensors, with a base class, slots and a named tuple.",
        {"KVCache": _TORCH_CACHE},
    ),
    _styles("threads", "The function uses a pool of two threads.", _THREADS),
    _styles("writes-a-file", "The function uses a temporary file, and the cell writes notes.", _FILE),
    _styles(
        "open-course-functions",
        "The answer uses the course's open functions and imports closed ones without calling them.",
        _OPEN_KERNELS,
    ),
    _styles(
        "first-answer-dies",
        "The first answer is wrong and ends its process; the others are right.",
        _FIRST_DIES,
        expect=_WITHOUT_FIRST,
    ),
)
