"""The fast decode step for a GPU: fused weights, fused attention, and a whole step recorded as one CUDA graph.

A step of a small model is hundreds of short kernels, and starting them from Python takes longer than running them. A CUDA
graph records them once and starts them together; then addresses and shapes must not change, so tokens and positions are
read from buffers, and attention sees a fixed stretch of the cache, the part not yet filled being masked.

Untested on a GPU: the steps run, and are tested, on a CPU, where they are called one by one. Only recording and
replaying is left to try.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from kvlab.cache import KVCache, Layout, PreallocatedCache, check_fits
from kvlab.model import Llama, check_id, check_id_type, rotate

STRETCH = 64  # the shortest part of the cache that a graph attends to; others are twice, four times, ... as long


class GraphLlama:
    """`GraphLlama.from_model(model)`, then as the readable model: `fast(ids, cache)`, or `generate_cached(fast, ...)`.

    One sequence, the dtype and device of `model`, and a PreallocatedCache. Graphs belong to the cache they were recorded
    with; another cache means recording anew, which takes about as long as a few steps.
    """

    def __init__(self, model: Llama) -> None:
        self.config, self.tokenizer = model.config, model.tokenizer
        self.dtype, self.device = model.dtype, model.device
        layers: Any = model.model.layers
        with torch.no_grad():
            self._layers = [
                {
                    "attn_norm": layer.input_layernorm.weight.detach(),
                    "qkv": _rows(layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj),
                    "out": layer.self_attn.o_proj.weight.detach(),
                    "mlp_norm": layer.post_attention_layernorm.weight.detach(),
                    "gate_up": _rows(layer.mlp.gate_proj, layer.mlp.up_proj),
                    "down": layer.mlp.down_proj.weight.detach(),
                }
                for layer in layers
            ]
        self._table, self._norm = model.model.embed_tokens.weight.detach(), model.model.norm.weight.detach()
        self._head, self._cos, self._sin = model.lm_head.weight.detach(), model.cos, model.sin
        self._token = torch.zeros(1, dtype=torch.long, device=self.device)
        self._position = torch.zeros(1, dtype=torch.long, device=self.device)
        self._logits = torch.zeros(1, self.config.vocab_size, dtype=self.dtype, device=self.device)
        self._lock = threading.Lock()  # one set of buffers, so one caller at a time
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}  # by the stretch of the cache that they attend to
        self._recorded_for: KVCache | None = None

    @classmethod
    def from_model(cls, model: Llama) -> GraphLlama:
        """The same weights, q, k, v and gate, up joined; `model` stays as it is and is not needed afterwards."""
        return cls(model)

    def layout(self, batch: int = 1) -> Layout:
        """What a cache must be made for to serve this model."""
        c = self.config
        return Layout(c.n_layers, batch, c.n_kv_heads, c.d_head, self.dtype, self.device)

    def new_cache(self, max_len: int | None = None) -> PreallocatedCache:
        """An empty cache of this model, by default for its whole window."""
        return PreallocatedCache(self.config, max_len, dtype=self.dtype, device=self.device)

    @torch.no_grad()
    def __call__(self, ids: torch.Tensor, cache: KVCache | None = None, last_only: bool = False) -> torch.Tensor:
        """Logits (n, vocab_size) of ids (n,), or (1, n, vocab_size) of (1, n), as the readable model gives them."""
        flat = ids[0] if ids.dim() == 2 and ids.shape[0] == 1 else ids
        if flat.dim() != 1 or len(flat) == 0:
            raise ValueError(f"ids must be (n,) or (1, n) with at least one token, got shape {tuple(ids.shape)}")
        check_id_type(ids)
        if cache is None:
            if len(flat) > self.config.max_len:
                raise ValueError(f"{len(flat)} tokens exceed the window of {self.config.max_len}: shorten the prompt")
            cache = self.new_cache(len(flat))
        elif not isinstance(cache, PreallocatedCache):
            raise ValueError(f"GraphLlama writes into a PreallocatedCache, got {type(cache).__name__}")
        check_fits(cache, self.layout())
        held, limit = cache.length, min(self.config.max_len, cache.max_len)
        if held + len(flat) > limit:
            raise ValueError(
                f"{held} positions held and {len(flat)} new ones exceed the window of {limit}: "
                f"shorten the prompt or generate fewer tokens"
            )
        if (
            self.device.type == "cpu" or len(flat) > 1
        ):  # one token on a GPU: `decode_step` has looked before it was sent
            for end in flat.aminmax():
                check_id(int(end), self.config.vocab_size)
        with self._lock:
            if len(flat) == 1:
                logits = self._step(flat, cache).clone()  # the next step writes over the original
            else:
                at = torch.arange(held, held + len(flat), device=self.device)
                logits = self._pass(flat, at, cache, held + len(flat), last_only)
        cache.set_length(held + len(flat))
        return logits if ids.dim() == 1 else logits[None]

    def _step(self, token: torch.Tensor, cache: PreallocatedCache) -> torch.Tensor:
        """Logits (1, vocab_size) of one token, in a buffer that the next step uses again."""
        if cache is not self._recorded_for:
            self._graphs, self._recorded_for = {}, cache
        self._token.copy_(token)
        self._position.fill_(cache.length)
        stretch = STRETCH
        while stretch <= cache.length:
            stretch *= 2
        stretch = min(stretch, cache.max_len)

        def step() -> None:
            self._logits.copy_(self._pass(self._token, self._position, cache, stretch, last_only=True))

        if self.device.type != "cuda":
            step()
        else:
            if stretch not in self._graphs:
                self._graphs[stretch] = _record(step)
            self._graphs[stretch].replay()
        return self._logits

    def _pass(
        self, ids: torch.Tensor, at: torch.Tensor, cache: PreallocatedCache, seen: int, last_only: bool
    ) -> torch.Tensor:
        """Tokens ids (n,) at positions `at` (n,) through the model; attention looks at the cache's first `seen` positions.

        Only shapes and addresses are known here, no values: everything can be recorded.
        """
        c = self.config
        keys, values = cache.storage
        x = F.embedding(ids, self._table)[None]
        cos, sin = self._cos[at], self._sin[at]
        allowed = torch.arange(seen, device=self.device) <= at[:, None]
        for i, w in enumerate(self._layers):
            y = F.rms_norm(x, (c.d_model,), w["attn_norm"], c.norm_eps)
            heads = F.linear(y, w["qkv"]).unflatten(-1, (-1, c.d_head)).transpose(1, 2)
            q, k, v = heads.split((c.n_heads, c.n_kv_heads, c.n_kv_heads), dim=1)
            keys[i].index_copy_(2, at, rotate(k, cos, sin))
            values[i].index_copy_(2, at, v)
            mixed = F.scaled_dot_product_attention(
                rotate(q, cos, sin),
                keys[i, :, :, :seen],
                values[i, :, :, :seen],
                attn_mask=allowed,
                enable_gqa=c.group_size > 1,
            )
            x = x + F.linear(mixed.transpose(1, 2).flatten(2), w["out"])
            y = F.rms_norm(x, (c.d_model,), w["mlp_norm"], c.norm_eps)
            gate, up = F.linear(y, w["gate_up"]).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, w["down"])
        if last_only:
            x = x[:, -1:]
        return F.linear(F.rms_norm(x, (c.d_model,), self._norm, c.norm_eps), self._head)[0]


def _rows(*layers: torch.nn.Linear) -> torch.Tensor:
    """Several weight matrices with the same columns as one."""
    return torch.cat([layer.weight.detach() for layer in layers])


def _record(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """`step` as a graph. It runs on a side stream first, so that libraries set themselves up outside of the recording."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph
