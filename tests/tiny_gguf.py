"""Writes small GGUF files byte by byte, from the format's description and without the reader that is tested.

`llama` is a whole model of the SmolLM2 kind with two layers; its weights are exact in float16.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np

from kvlab.config import ModelConfig
from kvlab.tokenizer import byte_alphabet

CONFIG = ModelConfig(270, 64, 2, 4, 2, 16, 96, 128, rope_theta=10_000.0, norm_eps=1e-5, tied=True)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["a b", "ab c", "Ġ t", "Ġt h", "Ġth e", "i n", "o n", "e r", "1 2", "m o", "mo m"]
NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q6_K": 14}


class U32(int):
    """An int that is written as uint32; a plain int is written as int32."""


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(content: Any) -> bytes:
    """Type number and content of one metadata value."""
    match content:
        case bool():
            return struct.pack("<I?", 7, content)
        case U32():
            return struct.pack("<II", 4, content)
        case int():
            return struct.pack("<Ii", 5, content)
        case float():
            return struct.pack("<If", 6, content)
        case str():
            return struct.pack("<I", 8) + text(content)
    if isinstance(content[0], str):
        return struct.pack("<IIQ", 9, 8, len(content)) + b"".join(map(text, content))
    return struct.pack("<IIQ", 9, 5, len(content)) + struct.pack(f"<{len(content)}i", *content)


def write(
    path: Path, metadata: dict[str, Any], tensors: dict[str, tuple[str | int, tuple[int, ...], bytes]], version: int = 3
) -> Path:
    """`tensors`: name to (type, shape in numpy's order, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, content in metadata.items():
        head += text(key) + value(content)
    body = b""
    for name, (kind, shape, data) in tensors.items():
        body += bytes(-len(body) % 32)
        number = kind if isinstance(kind, int) else NUMBERS[kind]
        dims = struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += text(name) + struct.pack("<I", len(shape)) + dims + struct.pack("<IQ", number, len(body))
        body += data
    path.write_bytes(head + bytes(-len(head) % 32) + body)
    return path


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights under Hugging Face's names, multiples of 1/64 so that float16 holds them exactly."""
    c, rng = CONFIG, np.random.default_rng(seed)
    q, kv = c.n_heads * c.d_head, c.n_kv_heads * c.d_head
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (c.vocab_size, c.d_model),
        "model.norm.weight": (c.d_model,),
    }
    for i in range(c.n_layers):
        layer: dict[str, tuple[int, ...]] = {
            "input_layernorm": (c.d_model,),
            "self_attn.q_proj": (q, c.d_model),
            "self_attn.k_proj": (kv, c.d_model),
            "self_attn.v_proj": (kv, c.d_model),
            "self_attn.o_proj": (c.d_model, q),
            "post_attention_layernorm": (c.d_model,),
            "mlp.gate_proj": (c.d_ff, c.d_model),
            "mlp.up_proj": (c.d_ff, c.d_model),
            "mlp.down_proj": (c.d_model, c.d_ff),
        }
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return {name: rng.integers(-20, 21, shape).astype(np.float32) / 64 for name, shape in shapes.items()}


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's order of the rows of q and k: in each head row i, row i + half, row i + 1, row i + 1 + half, ..."""
    d_head = len(weight) // heads
    order = [h * d_head + i + part for h in range(heads) for i in range(d_head // 2) for part in (0, d_head // 2)]
    return weight[order]


NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    for theirs, ours in NAMES.items():
        name = name.replace(theirs, ours)
    return name.replace("model.layers.", "blk.")


def llama_metadata() -> dict[str, Any]:
    alphabet = list(byte_alphabet())
    tokens = [*SPECIAL, *alphabet, *(merge.replace(" ", "") for merge in MERGES)]
    assert len(tokens) == CONFIG.vocab_size
    return {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": U32(CONFIG.n_layers),
        "llama.context_length": U32(CONFIG.max_len),
        "llama.embedding_length": U32(CONFIG.d_model),
        "llama.feed_forward_length": U32(CONFIG.d_ff),
        "llama.attention.head_count": U32(CONFIG.n_heads),
        "llama.attention.head_count_kv": U32(CONFIG.n_kv_heads),
        "llama.attention.layer_norm_rms_epsilon": CONFIG.norm_eps,
        "llama.rope.freq_base": CONFIG.rope_theta,
        "llama.rope.dimension_count": U32(CONFIG.d_head),
        "llama.vocab_size": U32(CONFIG.vocab_size),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * (len(tokens) - 3),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": U32(1),
        "tokenizer.ggml.eos_token_id": U32(2),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def llama_tensors() -> dict[str, tuple[str | int, tuple[int, ...], bytes]]:
    tensors: dict[str, tuple[str | int, tuple[int, ...], bytes]] = {}
    for name, weight in weights().items():
        if "q_proj" in name or "k_proj" in name:
            weight = interleave(weight, CONFIG.n_heads if "q_proj" in name else CONFIG.n_kv_heads)
        kind = "F32" if weight.ndim == 1 else "F16"
        tensors[gguf_name(name)] = (kind, weight.shape, weight.astype("<f4" if kind == "F32" else "<f2").tobytes())
    return tensors


def llama(path: Path) -> Path:
    return write(path, llama_metadata(), llama_tensors())
