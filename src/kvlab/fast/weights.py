"""From the readable model's parameters to the arrays of the compiled step: fused, stacked by layer, and quantised."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from kvlab.fast.step import Matrix, Weights
from kvlab.model import Llama, rope_frequencies
from kvlab.quantize import quantize_groups, quantize_rows

# name -> the dtype of cache and prefill. int8 and int4 compute as bf16 does, from fewer bytes of weights.
FORMATS = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "int8": torch.bfloat16,
    "int4": torch.bfloat16,
}


def pack(model: Llama, name: str) -> Weights:
    """The weights of `model` in the format `name`.

    int4 keeps the output head in int8, as is usual: it is the matrix where rounding shows most.
    """
    config = model.config
    layers: Any = model.model.layers

    def stack(parts: Callable[..., Iterable[torch.Tensor]], kind: str = name) -> Matrix:
        packed = [pack_matrix(torch.cat(list(parts(layer))), kind) for layer in layers]
        return Matrix(np.stack([m.codes for m in packed]), np.stack([m.scales for m in packed]))

    head = pack_matrix(model.lm_head.weight, "int8" if name == "int4" else name)
    norms = [n for layer in layers for n in (layer.input_layernorm, layer.post_attention_layernorm)]
    real = torch.float64 if name == "fp64" else torch.float32
    angles = torch.outer(torch.arange(config.max_len, dtype=torch.float64), rope_frequencies(config)).repeat(1, 2)
    return Weights(
        qkv=stack(lambda a: (p.weight for p in (a.self_attn.q_proj, a.self_attn.k_proj, a.self_attn.v_proj))),
        out=stack(lambda a: [a.self_attn.o_proj.weight]),
        gate_up=stack(lambda a: (a.mlp.gate_proj.weight, a.mlp.up_proj.weight)),
        down=stack(lambda a: [a.mlp.down_proj.weight]),
        head=Matrix(head.codes[None], head.scales[None]),
        norms=torch.stack([norm.weight for norm in [*norms, model.model.norm]]).to(real).numpy(),
        epsilon=config.norm_eps,
        cos=angles.cos().to(real).numpy(),
        sin=angles.sin().to(real).numpy(),
    )


def pack_matrix(weight: torch.Tensor, kind: str) -> Matrix:
    """One matrix (rows, columns); float formats have no scales."""
    weight = weight.detach().cpu()
    if kind == "int8":
        codes, scales = quantize_rows(weight)
        return Matrix(codes, scales[:, None])
    if kind == "int4":
        columns = weight.shape[1]
        group = 64 if columns % 64 == 0 else 32
        groups = quantize_groups(F.pad(weight, (0, -columns % group)), group)  # a width like 432 is filled up with 0
        return Matrix(groups.packed, groups.scales)
    return Matrix(as_array(weight.to(FORMATS[kind]).contiguous()), np.zeros((1, 1), np.float32))


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """The same memory as a numpy array; bfloat16, which numpy lacks, as its bits in uint16."""
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """The inverse of `as_array`."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if tensor.dtype == torch.uint16 else tensor


def weight_bytes(weights: Weights) -> int:
    """Bytes of all matrices with their scales, and of the norms."""
    matrices = (weights.qkv, weights.out, weights.gate_up, weights.down, weights.head)
    return weights.norms.nbytes + sum(m.codes.nbytes + m.scales.nbytes for m in matrices)
