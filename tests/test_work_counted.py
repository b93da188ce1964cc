"""The formulas of work and bytes against counters that watch the real primer model compute.

Three ways to compute causal attention, three counts:
- the plain definition (`grouped_query_attention`) computes the full square of scores and then masks it: `causal=False`;
- the model calls torch's fused kernel, which is given the full square too. A counter can only see that: what the kernel
  skips above the diagonal does not show in its arguments. So this is also `causal=False`;
- what causality needs, and what `pass_macs` counts by default, is the triangle. Here it is really computed, one query
  after another over its own past, and counted.
A decode step has one query, which sees everything: there the three are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import kvlab
from kvlab import arithmetic, attention
from kvlab.cache import PreallocatedCache
from kvlab.engine import PagedPool
from kvlab.engine.runner import Row, run

MODEL = kvlab.load("primer")
CONFIG = MODEL.config


def flops(call: Callable[[], Any]) -> int:
    """FLOPs of all matrix products, fused attention written out as products (torch counts 2 for a multiply-add)."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def filled(n: int) -> PreallocatedCache:
    cache = PreallocatedCache(CONFIG, 64)
    if n:
        with torch.no_grad():
            MODEL(torch.arange(n), cache)
    return cache


def one_query_after_another(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention that computes nothing that the mask would hide."""
    n_past = k.shape[2] - q.shape[2]
    return torch.cat(
        [
            attention.grouped_query_attention(q[:, :, i : i + 1], k[:, :, : n_past + i + 1], v[:, :, : n_past + i + 1])
            for i in range(q.shape[2])
        ],
        dim=2,
    )


PASSES = [(1, 0), (2, 0), (13, 0), (1, 12), (5, 9), (1, 40)]  # new tokens, past tokens


@pytest.mark.parametrize(("n_new", "n_past"), PASSES)
@pytest.mark.parametrize("last_only", [True, False])
def test_the_model_computes_the_full_square(n_new, n_past, last_only):
    cache = filled(n_past)
    counted = flops(lambda: MODEL(torch.arange(n_new), cache, last_only))
    heads = 1 if last_only else n_new
    assert counted == 2 * arithmetic.pass_macs(CONFIG, n_new, n_past, heads, causal=False)["total"]
    exact = arithmetic.pass_macs(CONFIG, n_new, n_past, heads)["total"]
    assert counted == 2 * exact if n_new == 1 else counted > 2 * exact


@pytest.mark.parametrize(("n_new", "n_past"), PASSES)
def test_the_plain_definition_computes_the_full_square_too(monkeypatch, n_new, n_past):
    monkeypatch.setattr(attention, "attend", attention.grouped_query_attention)
    cache = filled(n_past)
    counted = flops(lambda: MODEL(torch.arange(n_new), cache, True))
    assert counted == 2 * arithmetic.pass_macs(CONFIG, n_new, n_past, causal=False)["total"]


@pytest.mark.parametrize(("n_new", "n_past"), PASSES)
def test_the_triangle_is_what_causality_needs(monkeypatch, n_new, n_past):
    ids = torch.arange(n_new)
    with torch.no_grad():
        want = MODEL(ids, filled(n_past))
    monkeypatch.setattr(attention, "attend", one_query_after_another)
    cache = filled(n_past)
    counted = flops(lambda: MODEL(ids, cache, True))
    assert counted == 2 * arithmetic.pass_macs(CONFIG, n_new, n_past)["total"]
    with torch.no_grad():
        torch.testing.assert_close(MODEL(ids, filled(n_past)), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cached", [True, False])
def test_a_whole_generation(cached):
    prompt, new = 6, 5

    def generate() -> None:
        cache = PreallocatedCache(CONFIG, 32) if cached else None
        for step in range(new):
            first = step and cached
            n = 1 if first else prompt + step
            MODEL(torch.arange(n), cache, True)

    assert flops(generate) == 2 * arithmetic.generation_macs(CONFIG, prompt, new, cached, causal=False)["total"]


def test_each_part_is_counted_apart(monkeypatch):
    """Projections and head from the shapes of the weights, attention from what is left."""
    parts = dict.fromkeys(("projections", "ffn", "head"), 0)

    def count(part: str, layer: torch.nn.Linear, x: tuple[torch.Tensor, ...]) -> None:
        parts[part] += x[0].shape[:-1].numel() * layer.weight.numel()

    hooks = []
    for name, layer in MODEL.named_modules():
        if isinstance(layer, torch.nn.Linear):
            part = "projections" if "self_attn" in name else "ffn" if "mlp" in name else "head"
            hooks.append(layer.register_forward_pre_hook(lambda layer, x, part=part: count(part, layer, x)))
    try:
        total = flops(lambda: MODEL(torch.arange(11), None, True)) // 2
    finally:
        for hook in hooks:
            hook.remove()
    want = arithmetic.pass_macs(CONFIG, 11, causal=False)
    assert {**parts, "attention": total - sum(parts.values()), "total": total} == want


def test_the_engine_computes_a_prompt_once_and_pads_only_attention():
    """Products with weights take every new token once; the attention of decode rows is padded to whole blocks."""
    pool = PagedPool(MODEL.layout(), 12, 16)
    rows = [Row([5] * 9, 0, [0]), Row([6], 20, [1, 2]), Row([7], 3, [3])]
    pairs = arithmetic.causal_pairs(9, causal=False) + 2 * 2 * 16  # both decode rows over two blocks
    linear = 11 * arithmetic.linear_macs_per_token(CONFIG) + 3 * CONFIG.d_model * CONFIG.vocab_size
    per_pair = 2 * CONFIG.n_layers * CONFIG.n_heads * CONFIG.d_head
    assert flops(lambda: run(MODEL, pool, rows)) == 2 * (linear + per_pair * pairs)


# --- bytes -----------------------------------------------------------------------------------------------------------


class Reads(TorchDispatchMode):
    """Which parameters and which K and V the operations of a pass are given."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = {weight.data_ptr(): weight for weight in MODEL.parameters()}
        self.read: dict[int, int] = {}  # address -> times
        self.cache_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if "scaled_dot_product" in name:
            self.cache_bytes += sum(t.numel() * t.element_size() for t in args[1:3])
        elif not func.is_view and name != "embedding":  # a table of which a pass needs a few rows
            for tensor in args:
                if isinstance(tensor, torch.Tensor) and tensor.data_ptr() in self.weights:
                    self.read[tensor.data_ptr()] = self.read.get(tensor.data_ptr(), 0) + 1
        return func(*args, **kwargs or {})


@pytest.mark.parametrize(("n_new", "n_past"), PASSES)
def test_a_pass_reads_every_weight_once_and_the_cache(n_new, n_past):
    cache = filled(n_past)
    with torch.no_grad(), Reads() as reads:
        MODEL(torch.arange(n_new), cache, True)
    assert set(reads.read) == set(reads.weights), "every weight is read (the tied table by the head)"
    assert set(reads.read.values()) == {1}
    weight_bytes = sum(reads.weights[address].nbytes for address in reads.read)
    assert weight_bytes == arithmetic.read_bytes_per_pass(CONFIG, 4)
    assert reads.cache_bytes == arithmetic.kv_bytes(CONFIG, n_new + n_past, 1, 4) == cache.nbytes
    assert weight_bytes + reads.cache_bytes == arithmetic.pass_bytes(CONFIG, n_new + n_past, 1, 4)


def test_a_batch_reads_the_weights_once_and_each_cache():
    batch, n = 3, 7
    cache = PreallocatedCache(CONFIG, 16, batch)
    ids = torch.arange(batch * n).reshape(batch, n)
    with torch.no_grad():
        MODEL(ids, cache)
    with torch.no_grad(), Reads() as reads:
        MODEL(ids[:, :1], cache, True)
    assert set(reads.read.values()) == {1}
    moved = sum(reads.weights[address].nbytes for address in reads.read) + reads.cache_bytes
    assert moved == arithmetic.pass_bytes(CONFIG, n + 1, batch, 4)
