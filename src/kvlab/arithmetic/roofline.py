"""Lower bounds of time: a pass takes at least its FLOPs at peak speed and at least its bytes at full bandwidth.

Real times are higher. A measured time below the bound means that the shape, the count or the clock is wrong.
"""

from typing import Any

from kvlab.arithmetic.memory import kv_bytes, weight_bytes
from kvlab.arithmetic.work import pass_macs
from kvlab.published import GPU, gpu, shape_of
from kvlab.validate import amount, whole


def roofline_seconds(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
    """The larger of flops / peak_flops and bytes_moved / bandwidth, in seconds. The two rates must be positive."""
    compute = amount("flops", flops) / amount("peak_flops", peak_flops, positive=True)
    return max(compute, amount("bytes_moved", bytes_moved) / amount("bandwidth", bandwidth, positive=True))


def ridge_point(device: GPU | str) -> float:
    """FLOPs per byte at which a GPU stops waiting for memory and starts waiting for arithmetic."""
    card = _card(device)
    return card.peak_flops / card.bandwidth


def read_bytes_per_pass(model: Any, bytes_per_value: float = 2) -> int | float:
    """Weight bytes that one pass reads: everything but an untied input table, of which it needs a few rows only."""
    shape = shape_of(model)
    table = 0 if shape.tied else shape.vocab_size * shape.d_model
    return weight_bytes(shape, bytes_per_value) - table * amount("bytes_per_value", bytes_per_value)


def pass_bytes(model: Any, seq_len: int, batch: int = 1, bytes_per_value: float = 2) -> int | float:
    """Bytes of one pass: the weights once and, for each sequence, the cache of `seq_len` tokens (0 = no cache)."""
    return read_bytes_per_pass(model, bytes_per_value) + kv_bytes(model, seq_len, batch, bytes_per_value)


def pass_seconds(
    model: Any,
    device: GPU | str,
    n_new: int,
    n_past: int = 0,
    batch: int = 1,
    bytes_per_value: float = 2,
    use_cache: bool = True,
) -> float:
    """Bound of one forward pass of `n_new` tokens per sequence after `n_past` cached ones, head at the last position.

    Prefill is (n_new = prompt length, n_past = 0), a decode step (n_new = 1, n_past = tokens so far).
    With use_cache=False no cache is read or written, as in the naive loop.
    """
    card, sequences = _card(device), whole("batch", batch, least=1)
    new, past = whole("n_new", n_new, least=1), whole("n_past", n_past)
    flops = 2 * sequences * pass_macs(model, new, past)["total"]
    moved = pass_bytes(model, new + past if use_cache else 0, sequences, bytes_per_value)
    return roofline_seconds(flops, moved, card.peak_flops, card.bandwidth)


def generation_seconds(
    model: Any,
    device: GPU | str,
    prompt_len: int,
    n_new: int,
    cached: bool,
    bytes_per_value: float = 2,
) -> float:
    """Bound of a whole generation, one sequence: full passes (naive), or prefill and then one-token passes (cached)."""
    prompt, new = whole("prompt_len", prompt_len, least=1), whole("n_new", n_new)
    shape, card = shape_of(model), _card(device)
    total = 0.0
    for step in range(new):
        if cached and step:
            total += pass_seconds(shape, card, 1, prompt + step - 1, 1, bytes_per_value)
        else:
            total += pass_seconds(shape, card, prompt + step, 0, 1, bytes_per_value, use_cache=cached)
    return total


def cache_speedup_bound(model: Any, device: GPU | str, prompt_len: int, n_new: int) -> float:
    """Bound of the naive loop over bound of the cached loop, one sequence, 16-bit values."""
    whole("n_new", n_new, least=1)
    naive = generation_seconds(model, device, prompt_len, n_new, False)
    return naive / generation_seconds(model, device, prompt_len, n_new, True)


def _card(device: GPU | str) -> GPU:
    return gpu(device) if isinstance(device, str) else device
