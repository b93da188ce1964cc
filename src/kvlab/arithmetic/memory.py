"""Bytes of the KV cache and of the weights."""

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from kvlab.published import shape_of
from kvlab.validate import amount, whole

GB = 10**9
GIB = 2**30


def kv_cache_bytes(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    seq_len: int,
    batch: int = 1,
    bytes_per_value: float = 2,
) -> int | float:
    """Bytes of K and V when every layer keeps every position: 2 x layers x KV heads x head width x tokens x batch.

    `bytes_per_value` may be fractional (0.5 for 4-bit values). The result is not rounded: an int where
    bytes_per_value is a whole number of type int, else a float. Negative values raise ValueError.
    """
    values = 2 * whole("n_layers", n_layers) * whole("n_kv_heads", n_kv_heads) * whole("d_head", d_head)
    return values * whole("seq_len", seq_len) * whole("batch", batch) * amount("bytes_per_value", bytes_per_value)


def kv_bytes(model: Any, seq_len: int, batch: int = 1, bytes_per_value: float = 2) -> int | float:
    """Bytes that the cache of `model` holds after `seq_len` tokens, layer group by layer group.

    A window layer holds min(seq_len, window) positions, a latent one its compressed row, a `none` one nothing
    (see `state_bytes`). `model` is a name, a PublishedModel, a ModelConfig or a dict.
    """
    tokens, sequences = whole("seq_len", seq_len), whole("batch", batch)
    groups = shape_of(model).layers
    values = sum(g.layers * g.values_per_position * g.positions_kept(tokens) for g in groups)
    return values * sequences * amount("bytes_per_value", bytes_per_value)


def quantised_kv_bytes(
    model: Any,
    seq_len: int,
    batch: int = 1,
    bits: int = 8,
    keys: str = "channel",
    group: int = 32,
    bytes_per_value: float = 2,
) -> int | float:
    """Bytes of a cache in codes of `bits` (8 or 4), float32 scales included: what `kvlab.quantised_cache` holds.

    V has a scale per token and KV head. K has the same (`keys="token"`), or one per channel for each full `group` of
    tokens (`keys="channel"`); its newest seq_len % group tokens keep `bytes_per_value` each. Only for layers that keep
    K and V of every position; others raise ValueError.
    """
    shape, tokens, size = shape_of(model), whole("seq_len", seq_len), whole("group", group, least=1)
    if bits not in (4, 8) or keys not in ("channel", "token"):
        raise ValueError(f"bits must be 4 or 8 and keys 'channel' or 'token', got {bits!r:.40} and {keys!r:.40}")
    if any(g.kind != "full" for g in shape.layers):
        raise ValueError(f"{shape.name} has layers that don't keep every position: this counts full attention only")
    total: int | float = 0
    for g in shape.layers:
        per_token = g.d_head * bits // 8 + 4
        full, rest = (tokens // size, tokens % size) if keys == "channel" else (0, 0)
        k = full * g.d_head * (size * bits // 8 + 4) + rest * g.d_head * amount("bytes_per_value", bytes_per_value)
        k = k if keys == "channel" else tokens * per_token
        total += g.layers * g.n_kv_heads * (k + tokens * per_token)
    return total * whole("batch", batch)


def kv_values_per_token(model: Any, seq_len: int = 0) -> int:
    """Numbers that one more token adds to the cache after `seq_len` tokens; a full window adds none."""
    tokens = whole("seq_len", seq_len)
    return sum(
        g.layers * g.values_per_position * (g.positions_kept(tokens + 1) - g.positions_kept(tokens))
        for g in shape_of(model).layers
    )


def kv_bytes_per_token(model: Any, bytes_per_value: float = 2, seq_len: int = 0) -> int | float:
    """Bytes that one more token adds to the cache after `seq_len` tokens."""
    return kv_values_per_token(model, seq_len) * amount("bytes_per_value", bytes_per_value)


def state_bytes(model: Any, batch: int = 1, bytes_per_value: float = 2) -> int | float:
    """Bytes of the fixed-size state of linear-attention layers; it does not grow with the text. 0 for most models."""
    values = sum(g.layers * g.state_values for g in shape_of(model).layers)
    return values * whole("batch", batch) * amount("bytes_per_value", bytes_per_value)


def query_heads_per_kv_head(model: Any) -> int:
    """Query heads that share one KV head: 1 for MHA, n_heads for MQA. The cache is that much smaller than MHA's."""
    shape = shape_of(model)
    return shape.n_heads // shape.n_kv_heads


def weight_bytes(model: Any, bytes_per_value: float = 2) -> int | float:
    """Bytes of all parameters at one width. Real low-bit checkpoints also hold scales and wider tables."""
    return shape_of(model).n_params * amount("bytes_per_value", bytes_per_value)


def kv_to_weights(model: Any, seq_len: int, batch: int = 1, bytes_per_value: float = 2) -> float:
    """Cache size divided by weight size, both with the same bytes per value."""
    width = amount("bytes_per_value", bytes_per_value, positive=True)
    return kv_bytes(model, seq_len, batch, width) / weight_bytes(model, width)


def crossover_tokens(
    model: Any,
    batch: int = 1,
    bytes_per_value: float = 2,
    bytes_per_weight: float = 2,
) -> float:
    """Tokens per sequence at which the cache is as large as the weights; inf where it never gets there.

    The length is an arithmetic one: compare it with the model's `max_len` before you believe in it.
    """
    shape = shape_of(model)
    width = amount("bytes_per_value", bytes_per_value, positive=True)
    goal = shape.n_params * amount("bytes_per_weight", bytes_per_weight, positive=True)
    goal = goal / (width * whole("batch", batch, least=1))
    # values held grow in straight pieces that bend where a window is full
    bends = sorted({g.window for g in shape.layers if g.window is not None})
    start, held = 0, 0
    for end in [*bends, None]:
        slope = kv_values_per_token(shape, start)
        if end is None:
            return start + (goal - held) / slope if slope else math.inf
        if held + slope * (end - start) >= goal:
            return start + (goal - held) / slope
        start, held = end, held + slope * (end - start)
    return math.inf


def sequences_that_fit(
    model: Any,
    seq_len: int,
    memory_bytes: float,
    reserve_bytes: float = 0,
    bytes_per_value: float = 2,
) -> int:
    """Whole sequences of `seq_len` tokens whose cache fits into `memory_bytes` after the reserve; never below 0."""
    free = amount("memory_bytes", memory_bytes) - amount("reserve_bytes", reserve_bytes)
    each = kv_bytes(model, whole("seq_len", seq_len, least=1), 1, amount("bytes_per_value", bytes_per_value, True))
    if each == 0:
        raise ValueError("this model keeps no cache per token, so any number of sequences fits")
    return max(0, int(free // each))


def concat_bytes_copied(n_steps: int, bytes_per_token: float) -> int | float:
    """Bytes written when each of `n_steps` appends builds a new tensor one token longer: 1 + 2 + ... + n_steps tokens.

    A preallocated cache writes n_steps tokens in all.
    """
    return causal_sum(whole("n_steps", n_steps)) * amount("bytes_per_token", bytes_per_token)


def causal_sum(n: int) -> int:
    """1 + 2 + ... + n."""
    return n * (n + 1) // 2


def gb(n_bytes: float) -> float:
    """Bytes in GB, 10^9."""
    return amount("n_bytes", n_bytes) / GB


def gib(n_bytes: float) -> float:
    """Bytes in GiB, 2^30."""
    return amount("n_bytes", n_bytes) / GIB


def format_bytes(n_bytes: float) -> str:
    """Both units, so that nobody has to guess: 16777216000 -> '16.78 GB (15.63 GiB)', 131072 -> '131.1 kB (128 KiB)'.

    Four digits, halves rounded up.
    """
    number = amount("n_bytes", n_bytes)
    for decimal, binary, power in (("TB", "TiB", 4), ("GB", "GiB", 3), ("MB", "MiB", 2), ("kB", "KiB", 1)):
        if number >= 1000**power:
            return f"{_short(number / 1000**power)} {decimal} ({_short(number / 1024**power)} {binary})"
    return f"{_short(number)} bytes"


def _short(value: float) -> str:
    """Four digits, halves rounded up, no trailing zeros: 15.625 -> '15.63', 4.0 -> '4', 2199.02 -> '2,199'."""
    rounded = Context(prec=4, rounding=ROUND_HALF_UP).create_decimal(Decimal(value))
    text = f"{rounded:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
