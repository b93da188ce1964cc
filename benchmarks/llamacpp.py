"""llama.cpp beside kvlab.fast, where `llama-cpp-python` is installed. The same random weights, written as a GGUF file.

`pip install llama-cpp-python` builds it from source, which takes minutes and a C++ compiler; nothing else needs it.
The file has no vocabulary and its q and k rows are not in the order that llama.cpp rotates: it times the work and gives
other tokens.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rivals import Decoded

from kvlab.model import Llama

FORMATS = ("bf16", "q8_0")


def installed() -> bool:
    return find_spec("llama_cpp") is not None and find_spec("gguf") is not None


def write_gguf(model: Llama, name: str, path: Path) -> None:
    """The weights of `model` as bf16 or q8_0 (8-bit codes, a scale for every 32); norms stay float32."""
    import gguf
    from gguf.quants import quantize

    c = model.config
    kind = {"bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0}[name]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(c.max_len)
    writer.add_embedding_length(c.d_model)
    writer.add_block_count(c.n_layers)
    writer.add_feed_forward_length(c.d_ff)
    writer.add_head_count(c.n_heads)
    writer.add_head_count_kv(c.n_kv_heads)
    writer.add_layer_norm_rms_eps(c.norm_eps)
    writer.add_rope_dimension_count(c.d_head)
    writer.add_rope_freq_base(c.rope_theta)
    writer.add_vocab_size(c.vocab_size)
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(int({"bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}[name]))

    def add(key: str, weight: torch.Tensor) -> None:
        data = weight.detach().float().numpy()
        if data.ndim == 1:
            writer.add_tensor(key, data)
        else:
            writer.add_tensor(key, quantize(data, kind), raw_dtype=kind)

    add("token_embd.weight", model.model.embed_tokens.weight)
    add("output_norm.weight", model.model.norm.weight)
    if not c.tied:
        add("output.weight", model.lm_head.weight)
    layers: Any = model.model.layers
    for i, layer in enumerate(layers):
        for key, weight in {
            "attn_norm": layer.input_layernorm.weight,
            "attn_q": layer.self_attn.q_proj.weight,
            "attn_k": layer.self_attn.k_proj.weight,
            "attn_v": layer.self_attn.v_proj.weight,
            "attn_output": layer.self_attn.o_proj.weight,
            "ffn_norm": layer.post_attention_layernorm.weight,
            "ffn_gate": layer.mlp.gate_proj.weight,
            "ffn_up": layer.mlp.up_proj.weight,
            "ffn_down": layer.mlp.down_proj.weight,
        }.items():
            add(f"blk.{i}.{key}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    """One model in llama.cpp, for greedy steps and whole prompts."""

    def __init__(self, path: Path, threads: int, n_ctx: int) -> None:
        from llama_cpp import Llama as Native

        self.native: Any = Native(
            str(path), n_ctx=n_ctx, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False
        )

    def prefill(self, ids: Sequence[int]) -> None:
        self.native.reset()
        self.native.eval(list(ids))

    def decode(self, ids: Sequence[int], steps: int) -> Decoded:
        """Greedy steps after a cache that `prefill` filled with all of `ids` but the last."""
        from llama_cpp import llama_get_logits_ith

        native, vocab = self.native, self.native.n_vocab()
        native.n_tokens = len(ids) - 1  # `eval` takes off what the cache holds beyond this
        token, tokens, times = ids[-1], [], []
        for _ in range(steps + 1):
            native.eval([token])
            token = int(np.ctypeslib.as_array(llama_get_logits_ith(native.ctx, -1), shape=(vocab,)).argmax())
            tokens.append(token)
            times.append(time.perf_counter())
        return Decoded(tokens, times)


def rivals(model: Llama, folder: Path, threads: int, n_ctx: int) -> dict[str, LlamaCpp]:
    """llama.cpp with the weights of `model` in each format, or nothing where it is not installed."""
    if not installed():
        return {}
    found = {}
    for name in FORMATS:
        path = folder / f"{name}.gguf"
        write_gguf(model, name, path)
        found[f"llama.cpp {name}"] = LlamaCpp(path, threads, n_ctx)
    return found
