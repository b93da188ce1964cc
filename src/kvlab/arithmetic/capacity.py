"""How fast a model can answer on a GPU at best, and how many sequences it can hold: two quick estimates.

They take six numbers of a model and three of a GPU, and count a little more than `roofline` does: every pass
multiplies and reads all parameters, the token table and the head at every position included. So `predict_latency`
estimates the bound, and is no bound itself: a program may be faster than it. It lies above the exact bound by up to 3 %
for a prompt of Llama 3 70B, 15 % for Llama 3 8B, and 27 % for Llama 3.2 1B, whose head is a fifth of it; by up to 8 %
for a decode step of the models in `published`. To call a figure impossible, take `pass_seconds`.
"""

import math
from collections.abc import Mapping
from typing import Any

from kvlab import published
from kvlab.arithmetic.memory import kv_cache_bytes
from kvlab.arithmetic.roofline import pass_seconds, roofline_seconds
from kvlab.arithmetic.work import causal_pairs
from kvlab.published import GPU, shape_of
from kvlab.validate import amount, whole

Line = tuple[float, float]  # (value at 0, growth per token of context)
COUNTS = ("n_params", "n_layers", "n_heads", "n_kv_heads", "d_head")
RATES = ("peak_flops", "bandwidth", "memory_bytes")


def capacity_shape(model: Any, bytes_per_value: float = 2) -> dict[str, Any]:
    """Of a published model n_params, n_layers, n_heads, n_kv_heads, d_head and bytes_per_value, and its name.

    ValueError for a mixture of experts and for layers that do not keep K and V of every position.
    """
    shape = shape_of(model)
    if shape.moe or any(group.kind != "full" for group in shape.layers):
        raise ValueError(f"{shape.name} is not a dense model with full attention, which this estimate is for")
    width = amount("bytes_per_value", bytes_per_value, positive=True)
    return {name: getattr(shape, name) for name in COUNTS} | {"bytes_per_value": width, "name": shape.name}


def predict_latency(model: Any, gpu: Any, prompt_len: int, n_new: int, batch: int = 1) -> dict[str, float]:
    """Roofline estimates {"ttft", "tpot", "e2e"} in seconds, at best, of `batch` equal requests that run together.

    All parameters count in every pass, so this is a little above the exact bound of `pass_seconds` (see the module).

    model: a mapping with n_params, n_layers, n_heads, n_kv_heads, d_head and bytes_per_value (of weights and KV), or a
    name or shape, taken at 16 bits. gpu: a mapping with peak_flops, bandwidth and memory_bytes, a name, or a GPU.
    A pass takes the larger of FLOPs / peak and bytes / bandwidth. FLOPs: batch x (2 n_params per token + 4 n_layers
    n_heads d_head per (query, key) pair); bytes: the weights once + batch x KV held, new tokens included. Prefill gives
    the first token (ttft), then n_new - 1 passes of one token on a growing context follow: tpot is their mean (nan for
    n_new = 1), e2e the sum of all. It is not asked whether all that fits: see `max_concurrent`.
    Counts below 1, missing or bad entries raise ValueError.
    """
    shape, card = _model(model), _gpu(gpu)
    prompt, new = whole("prompt_len", prompt_len, least=1), whole("n_new", n_new, least=1)
    sequences = whole("batch", batch, least=1)
    per_token, per_pair = 2 * shape["n_params"], 4 * shape["n_layers"] * shape["n_heads"] * shape["d_head"]
    weights, kv_each = shape["n_params"] * shape["bytes_per_value"], _kv_bytes(shape, 1)

    flops = sequences * (per_token * prompt + per_pair * causal_pairs(prompt))
    ttft = roofline_seconds(flops, weights + sequences * kv_each * prompt, card["peak_flops"], card["bandwidth"])
    # a decode pass on a context of c tokens, its own included, takes the larger of two straight lines in c
    compute = (sequences * per_token / card["peak_flops"], sequences * per_pair / card["peak_flops"])
    memory = (weights / card["bandwidth"], sequences * kv_each / card["bandwidth"])
    decode = sum_of_larger(compute, memory, prompt + 1, prompt + new - 1)
    return {"ttft": ttft, "tpot": decode / (new - 1) if new > 1 else math.nan, "e2e": ttft + decode}


def max_concurrent(model: Any, gpu: Any, seq_len: int, reserve_bytes: float = 0) -> int:
    """Sequences of `seq_len` tokens whose cache fits beside the weights and the reserve; rounded down, never below 0.

    model and gpu as in `predict_latency`. seq_len below 1 or a negative reserve raise ValueError.
    """
    shape, card = _model(model), _gpu(gpu)
    each = _kv_bytes(shape, whole("seq_len", seq_len, least=1))
    taken = shape["n_params"] * shape["bytes_per_value"] + amount("reserve_bytes", reserve_bytes)
    return max(0, int((card["memory_bytes"] - taken) // each))


def decode_tokens_per_second(
    model: Any, device: GPU | str, context: int, batch: int = 1, bytes_per_value: float = 2
) -> float:
    """New tokens per second of `batch` sequences, at most, when each holds `context` tokens, its newest included.

    By the exact count of `pass_seconds`: the head is read, an untied token table is not.
    """
    held, sequences = whole("context", context, least=1), whole("batch", batch, least=1)
    return sequences / pass_seconds(model, device, 1, held - 1, sequences, bytes_per_value)


def sum_of_larger(first: Line, second: Line, start: int, end: int) -> float:
    """Sum over start <= c <= end of the larger of two lines at c. Two lines cross once at most: one formula per side."""
    (base, growth), (other, slope) = first, second
    crossing = (other - base) / (growth - slope) if growth != slope else start
    middle = math.floor(min(max(crossing, start - 1), end))
    sides = ((start, middle), (middle + 1, end))
    return sum(max(_line_sum(first, a, b), _line_sum(second, a, b)) for a, b in sides)


def _line_sum(line: Line, start: int, end: int) -> float:
    return (end - start + 1) * (line[0] + line[1] * (start + end) / 2) if end >= start else 0.0


def _kv_bytes(shape: Mapping[str, Any], seq_len: int) -> int | float:
    sizes = (shape["n_layers"], shape["n_kv_heads"], shape["d_head"])
    return kv_cache_bytes(*sizes, seq_len, bytes_per_value=shape["bytes_per_value"])


def _model(model: Any) -> dict[str, Any]:
    if not isinstance(model, Mapping):
        return capacity_shape(model)
    _complete("model", model, (*COUNTS, "bytes_per_value"))
    counts = {name: whole(name, model[name], least=1) for name in COUNTS}
    return counts | {"bytes_per_value": amount("bytes_per_value", model["bytes_per_value"], positive=True)}


def _gpu(card: Any) -> dict[str, int | float]:
    found = published.gpu(card) if isinstance(card, str) else card
    if isinstance(found, GPU):
        found = {name: getattr(found, name) for name in RATES}
    if not isinstance(found, Mapping):
        raise ValueError(f"a GPU is a name such as 'a100-80gb' or a mapping with {', '.join(RATES)}, got {card!r:.60}")
    _complete("GPU", found, RATES)
    return {name: amount(name, found[name], positive=True) for name in RATES}


def _complete(what: str, given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(f"the {what} lacks {', '.join(missing)}")
