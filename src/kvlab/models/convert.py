"""A GGUF file of the Llama type becomes a Hugging Face folder: config.json, model.safetensors and the tokenizer's files.

Weights are stored in float16: half of float32's size, and for these files eight times nearer to the dequantised values
than bfloat16 (a relative error of 2e-4, where the quantisation itself made one of several percent).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from safetensors import SafetensorError
from safetensors.numpy import save_file
from tokenizers import decoders, models, pre_tokenizers

from kvlab.config import ModelConfig
from kvlab.gguf import Gguf, open_gguf

TOP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL, USER_DEFINED = 3, 4  # token types: a special token, and an added one that is text


def convert(source: Path, folder: Path) -> None:
    """Write the folder's files. Raises ValueError for a file that is damaged or of another kind."""
    gguf = open_gguf(source)
    config = _config(gguf)
    weights = {}
    for name in gguf.tensors:
        target = hf_name(name)
        weight = gguf.read(name)
        if target.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.n_heads if target.endswith("q_proj.weight") else config.n_kv_heads
            weight = halves(weight, heads)
        with np.errstate(over="ignore"):
            half = weight.astype(np.float16)
        if not np.isfinite(half).all():
            raise ValueError(
                f"the tensor {name!r:.60} in {source} holds values that are no numbers or too large for float16"
            )
        weights[target] = half
    settings = _settings(gguf)
    inner = _tokenizer(gguf)
    ids = {"bos_token_id": _get(gguf, "tokenizer.ggml.bos_token_id", int)}
    ids["eos_token_id"] = ids["pad_token_id"] = _get(gguf, "tokenizer.ggml.eos_token_id", int)
    _write_json(folder / "config.json", config.to_hf() | ids | {"dtype": "float16"})
    _write_json(folder / "tokenizer_config.json", settings)
    inner.save(str(folder / "tokenizer.json"), pretty=False)
    try:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    except SafetensorError as error:  # the library's own error, also for a full disk
        raise ValueError(
            f"cannot write {folder / 'model.safetensors'} ({error!s:.100}): make room on that disk, "
            f"or name another folder in KVLAB_CACHE"
        ) from error
    # safetensors makes a private file; the cache may be one that a whole class reads.
    (folder / "model.safetensors").chmod((folder / "config.json").stat().st_mode)


def halves(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q or k in Hugging Face's order.

    RoPE turns pairs of rows of a head. llama.cpp puts the two of a pair next to each other (0, 1), (2, 3), ...;
    Hugging Face pairs row i of a head's first half with row i of its second half.
    """
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def hf_name(name: str) -> str:
    """Hugging Face's name of one of the decoder's tensors."""
    first, *rest = name.removesuffix(".weight").split(".")
    return f"model.layers.{rest[0]}.{IN_LAYER[rest[1]]}.weight" if rest else f"{TOP[first]}.weight"


def _get(gguf: Gguf, key: str, kind: type, default: Any = None) -> Any:
    value = gguf.metadata.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        raise ValueError(f"{gguf.path} lacks '{key}', or it is of another type than expected")
    return value


def _config(gguf: Gguf) -> ModelConfig:
    kind = _get(gguf, "general.architecture", str)
    if kind != "llama":
        raise ValueError(f"{gguf.path} is a model of type {kind!r:.60}; only 'llama' can be converted")

    def size(key: str, default: int | None = None) -> int:
        return _get(gguf, f"llama.{key}", int, default)

    heads, width = size("attention.head_count"), size("embedding_length")
    if heads < 1 or width % heads:
        raise ValueError(f"{gguf.path} is damaged: {heads} heads do not divide a width of {width}")
    d_head = size("rope.dimension_count", width // heads)
    sizes: dict[str, Any] = {
        "vocab_size": len(_get(gguf, "tokenizer.ggml.tokens", list)),
        "d_model": width,
        "n_layers": size("block_count"),
        "n_heads": heads,
        "n_kv_heads": size("attention.head_count_kv", heads),
        "d_head": d_head,
        "d_ff": size("feed_forward_length"),
        "max_len": size("context_length"),
        "rope_theta": _shortest(_get(gguf, "llama.rope.freq_base", float, 10_000.0)),
        "norm_eps": _shortest(_get(gguf, "llama.attention.layer_norm_rms_epsilon", float)),
        "tied": "output.weight" not in gguf.tensors,
    }
    try:
        config = ModelConfig(**sizes)
    except ValueError as error:
        raise ValueError(f"{gguf.path} is damaged: {error}") from error
    _check_shapes(gguf, config)
    return config


def _check_shapes(gguf: Gguf, config: ModelConfig) -> None:
    """ValueError unless exactly the decoder's tensors are there, each of its shape."""
    d, q, kv, ff = config.d_model, config.n_heads * config.d_head, config.n_kv_heads * config.d_head, config.d_ff
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (config.vocab_size, d), "output_norm": (d,)}
    if not config.tied:
        shapes["output"] = (config.vocab_size, d)
    layer = {"attn_norm": (d,), "ffn_norm": (d,), "attn_q": (q, d), "attn_k": (kv, d), "attn_v": (kv, d)}
    layer |= {"attn_output": (d, q), "ffn_gate": (ff, d), "ffn_up": (ff, d), "ffn_down": (d, ff)}
    for i in range(min(config.n_layers, len(gguf.tensors))):  # a damaged count may be astronomic
        shapes |= {f"blk.{i}.{name}": shape for name, shape in layer.items()}
    for name, shape in shapes.items():
        info = gguf.tensors.get(f"{name}.weight")
        if info is None:
            raise ValueError(f"{gguf.path} lacks the tensor '{name}.weight'")
        if info.shape != shape:
            raise ValueError(f"'{name}.weight' in {gguf.path} has shape {info.shape}, its metadata asks for {shape}")
    if len(shapes) != len(gguf.tensors):
        extra = min(set(gguf.tensors) - {f"{name}.weight" for name in shapes})
        raise ValueError(f"{gguf.path} holds {extra!r:.60}, which the course's decoder does not have")


def _shortest(value: float) -> float:
    """The shortest decimal of a float32: GGUF keeps 1e-5 as 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def _token(gguf: Gguf, key: str) -> str:
    tokens = _get(gguf, "tokenizer.ggml.tokens", list)
    token = _get(gguf, key, int)
    if not 0 <= token < len(tokens):
        raise ValueError(f"{gguf.path} is damaged: {key} is {token}, but there are {len(tokens)} tokens")
    return tokens[token]


def _settings(gguf: Gguf) -> dict[str, Any]:
    """The content of tokenizer_config.json."""
    end = _token(gguf, "tokenizer.ggml.eos_token_id")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _token(gguf, "tokenizer.ggml.bos_token_id"),
        "eos_token": end,
        "pad_token": end,
        "add_bos_token": _get(gguf, "tokenizer.ggml.add_bos_token", bool, False),
        "clean_up_tokenization_spaces": False,
    }
    if "tokenizer.chat_template" in gguf.metadata:
        settings["chat_template"] = _get(gguf, "tokenizer.chat_template", str)
    return settings


def _tokenizer(gguf: Gguf) -> tokenizers.Tokenizer:
    """A byte-level BPE tokenizer from the metadata."""
    kind = _get(gguf, "tokenizer.ggml.model", str), _get(gguf, "tokenizer.ggml.pre", str)
    if kind != ("gpt2", "smollm"):
        raise ValueError(
            f"{gguf.path} has a tokenizer of kind {'/'.join(kind)!r:.60}; only 'gpt2/smollm' can be converted"
        )
    tokens = _get(gguf, "tokenizer.ggml.tokens", list)
    listed = _get(gguf, "tokenizer.ggml.merges", list)
    if not all(isinstance(entry, str) for entry in [*tokens, *listed]):
        raise ValueError(f"{gguf.path} is damaged: its tokens and merges must be texts")
    merges = [tuple(merge.split(" ")) for merge in listed]
    try:
        inner = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    except Exception as error:  # the library raises bare Exception
        raise ValueError(
            f"{gguf.path} is damaged: its merges and tokens do not fit ({' '.join(str(error).split()):.80})"
        ) from error
    # Every digit is a token of its own; the rest is split as in GPT-2.
    split = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    inner.pre_tokenizer = pre_tokenizers.Sequence(split)
    inner.decoder = decoders.ByteLevel()
    types = _get(gguf, "tokenizer.ggml.token_type", list)
    if len(types) != len(tokens):
        raise ValueError(f"{gguf.path} is damaged: {len(tokens)} tokens but {len(types)} token types")
    by_kind = {kind: [t for t, k in zip(tokens, types, strict=True) if k == kind] for kind in (CONTROL, USER_DEFINED)}
    inner.add_special_tokens([tokenizers.AddedToken(token, normalized=False) for token in by_kind[CONTROL]])
    inner.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in by_kind[USER_DEFINED]])
    return inner


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
