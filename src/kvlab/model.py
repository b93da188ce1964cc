"""A Llama-style decoder: RMSNorm, RoPE, grouped-query attention, SwiGLU (Touvron et al., 2023, arXiv 2302.13971).

Parameters carry the names of Hugging Face's LlamaForCausalLM, so a checkpoint loads as it is.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from kvlab import attention
from kvlab.cache import KVCache, Layout, check_fits
from kvlab.config import ModelConfig
from kvlab.tokenizer import Tokenizer


def rope_frequencies(config: ModelConfig) -> torch.Tensor:
    """Angle per position of each pair, (d_head / 2,) (Su et al., 2021, arXiv 2104.09864).

    With `rope_scaling`, long waves are stretched as in Llama 3.1: periods beyond
    original_max / low_freq_factor by `factor`, short ones not at all, a ramp between.
    """
    exponent = torch.arange(0, config.d_head, 2, dtype=torch.float64) / config.d_head
    frequencies = config.rope_theta**-exponent
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    ramp = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (ramp + (1 - ramp) / scaling["factor"])


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn each pair (x[i], x[i + d/2]) by its angle: the half-split convention of Hugging Face's Llama.

    x: (..., n, d_head); cos, sin: (n, d_head).
    """
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def first_position(cache: KVCache | None) -> int:
    """Position of the first new token: the sequence goes on where the cache ends."""
    return 0 if cache is None else cache.length


class Attention(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_head = config.n_heads, config.n_kv_heads, config.d_head
        self.q_proj = nn.Linear(config.d_model, config.n_heads * config.d_head, bias=False)
        self.k_proj = nn.Linear(config.d_model, config.n_kv_heads * config.d_head, bias=False)
        self.v_proj = nn.Linear(config.d_model, config.n_kv_heads * config.d_head, bias=False)
        self.o_proj = nn.Linear(config.n_heads * config.d_head, config.d_model, bias=False)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """(B, n, heads * d_head) -> (B, heads, n, d_head)."""
        return x.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, cache: KVCache | None, layer: int
    ) -> torch.Tensor:
        q = rotate(self.heads(self.q_proj(x)), cos, sin)
        k = rotate(self.heads(self.k_proj(x)), cos, sin)
        v = self.heads(self.v_proj(x))
        if cache is not None:
            k, v = cache.update(layer, k, v)
        window = getattr(cache, "window", None)  # a ring holds the window alone, so no query may look further
        mixed = attention.attend(q, k, v) if window is None else attention.sliding_window_attention(q, k, v, window)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """SwiGLU: a gate decides how much of each of the d_ff features passes (Shazeer, 2020, arXiv 2002.05202)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.up_proj = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.down_proj = nn.Linear(config.d_ff, config.d_model, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.mlp = Mlp(config)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, cache: KVCache | None, layer: int
    ) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache, layer)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Everything before the output head; its parameters are named `model.*` in a checkpoint."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        # not nn.Embedding(...): its random start, which `load` throws away, makes torch import its compiler (1 s)
        table = torch.empty(config.vocab_size, config.d_model)
        self.embed_tokens = nn.Embedding.from_pretrained(table, freeze=False)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.RMSNorm(config.d_model, config.norm_eps)


class Llama(nn.Module):
    """A decoder with its output head. `model(ids)` recomputes everything; `model(ids, cache)` only the new ids."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.tokenizer: Tokenizer | None = None
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.tie_weights()
        self.register_buffer("cos", torch.empty(0), persistent=False)
        self.register_buffer("sin", torch.empty(0), persistent=False)
        self.reset_rope()

    def tie_weights(self) -> None:
        """Let the output head be the embedding table, where the configuration says so."""
        if self.config.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def reset_rope(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> None:
        """Fill the tables of cosines and sines, (max_len, d_head) each, on a real device."""
        with torch.device("cpu"):
            positions = torch.arange(self.config.max_len, dtype=torch.float64)
            angles = torch.outer(positions, rope_frequencies(self.config)).repeat(1, 2)
        self.cos, self.sin = angles.cos().to(device, dtype), angles.sin().to(device, dtype)

    @property
    def device(self) -> torch.device:
        return self.lm_head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.lm_head.weight.dtype

    def forward(self, ids: torch.Tensor, cache: KVCache | None = None, last_only: bool = False) -> torch.Tensor:
        """Logits of the given ids: (n,) -> (n, vocab_size), or (B, n) -> (B, n, vocab_size).

        With a cache, `ids` are the tokens that follow what the cache holds, and their K and V are added to it.
        `last_only` applies the output head to the last position alone, which is all that generation needs.
        Raises ValueError for ids outside the vocabulary, positions beyond the window, or another model's cache.
        A pass that fails or is interrupted leaves the cache as it was, with all layers at one length.
        """
        batched = ids if ids.dim() == 2 else ids.unsqueeze(0)
        self._check(batched, cache)
        held = 0 if cache is None else cache.length
        try:
            logits = self._run(batched, cache, last_only)
        except BaseException:  # also a Ctrl-C: half-filled layers would make later tokens wrong without a word
            if cache is not None:
                cache.truncate(held)
            raise
        return logits if ids.dim() == 2 else logits[0]

    def _run(self, ids: torch.Tensor, cache: KVCache | None, last_only: bool) -> torch.Tensor:
        start = first_position(cache)
        x = self._embed(ids)
        cos, sin = self.cos[start : start + ids.shape[1]], self.sin[start : start + ids.shape[1]]
        for i, block in enumerate(self.model.layers):
            x = block(x, cos, sin, cache, i)
        if last_only:
            x = x[:, -1:]
        return self.lm_head(self.model.norm(x))

    def layout(self, batch: int = 1) -> Layout:
        """What a cache must be made for to serve this model."""
        weight = self.lm_head.weight
        return Layout(
            self.config.n_layers, batch, self.config.n_kv_heads, self.config.d_head, weight.dtype, weight.device
        )

    def _check(self, ids: torch.Tensor, cache: KVCache | None) -> None:
        if ids.dim() != 2 or ids.shape[1] == 0:
            raise ValueError(f"ids must be (n,) or (batch, n) with at least one token, got shape {tuple(ids.shape)}")
        check_id_type(ids)
        limit, held = self.config.max_len, 0
        if cache is not None:
            check_fits(cache, self.layout(ids.shape[0]))
            limit, held = min(limit, cache.max_len), cache.length
        if held + ids.shape[1] > limit:
            raise ValueError(
                f"{held} positions held and {ids.shape[1]} new ones exceed the window of {limit}: "
                f"shorten the prompt or generate fewer tokens"
            )
        # On a GPU a bad id would only show as a device-side assert. A single one is left to `decode_step`, which sees
        # it before it is sent: fetching it back here would hold up every step.
        if ids.device.type != "cpu" and ids.shape[1] > 1:
            self._check_ids(ids)

    def _embed(self, ids: torch.Tensor) -> torch.Tensor:
        try:
            return self.model.embed_tokens(ids)
        except IndexError:
            self._check_ids(ids)
            raise

    def _check_ids(self, ids: torch.Tensor) -> None:
        low, high = (int(i) for i in ids.aminmax())
        check_id(low, self.config.vocab_size)
        check_id(high, self.config.vocab_size)


def check_id_type(ids: torch.Tensor) -> None:
    """ValueError unless ids are whole numbers: a truth value or 1.7 would be taken for a token."""
    if ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"ids must be whole numbers (torch.long), got {ids.dtype}")


def check_id(token: int, vocab_size: int) -> None:
    if not 0 <= token < vocab_size:
        raise ValueError(
            f"token id {token} is outside the vocabulary of {vocab_size} (0 to {vocab_size - 1}): "
            f"was the text encoded with this model's tokenizer?"
        )
