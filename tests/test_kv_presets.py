"""What the calculator says is what real caches hold: every model of the table, every kind of layer.

The caches are the course's own, of the published shape. The large ones lie on torch's meta device, where a tensor has
a shape and a size but no memory. Latent rows and recurrent states have no cache in this course: they are held to the
formulas that were published with them.
"""

from __future__ import annotations

import pytest
import torch

from kvlab import arithmetic, published
from kvlab.cache import GrowingCache, KVCache, PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.engine import PagedPool
from kvlab.quantised_cache import QuantisedCache
from kvlab.ring import RingCache

KEYS = list(published.models())
LENGTHS = (1, 100, 5000)  # below, between and above the windows of the table
BATCH = 2


def config_of(group: published.LayerGroup, layers: int | None = None, max_len: int = 8192) -> ModelConfig:
    """A decoder whose every layer is of this group; what a cache does not ask for is small."""
    return ModelConfig(
        vocab_size=8,
        d_model=8,
        n_layers=layers or group.layers,
        n_heads=group.n_kv_heads,
        n_kv_heads=group.n_kv_heads,
        d_head=group.d_head,
        d_ff=8,
        max_len=max_len,
    )


def fill(cache: KVCache, config: ModelConfig, n: int, dtype: torch.dtype, device: str) -> int:
    """Bytes of a cache after `n` tokens."""
    new = torch.zeros(BATCH, config.n_kv_heads, n, config.d_head, dtype=dtype, device=device)
    for layer in range(config.n_layers):
        cache.update(layer, new, new)
    return cache.nbytes


def with_cache(model: published.PublishedModel) -> list[published.LayerGroup]:
    return [group for group in model.layers if group.kind in ("full", "window")]


def test_the_table_has_every_kind():
    kinds = {group.kind for key in KEYS for group in published.model(key).layers}
    assert kinds == set(published.KINDS)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_calculator_equals_real_caches_of_the_shape(key, dtype):
    model = published.model(key)
    for n in LENGTHS:
        held = 0
        for group in with_cache(model):
            config = config_of(group)
            if group.window is None:
                held += fill(PreallocatedCache(config, n, BATCH, dtype, "meta"), config, n, dtype, "meta")
            else:
                held += fill(RingCache(config, group.window, BATCH, dtype, "meta"), config, n, dtype, "meta")
        others = sum(
            g.layers * (g.kv_lora_rank + g.rope_dims) * n * BATCH * dtype.itemsize
            for g in model.layers
            if g.kind == "latent"
        )
        assert arithmetic.kv_bytes(model, n, BATCH, dtype.itemsize) == held + others


@pytest.mark.parametrize("key", KEYS)
def test_the_growing_and_the_paged_cache_hold_the_same(key):
    for group in with_cache(published.model(key)):
        if group.window is not None:
            continue
        config = config_of(group)
        each = arithmetic.kv_cache_bytes(group.layers, group.n_kv_heads, group.d_head, 1)
        assert fill(GrowingCache(config, BATCH), config, 37, torch.float16, "meta") == 37 * BATCH * each
        layout = PreallocatedCache(config, 1, 1, torch.float16, "meta").layout
        pool = PagedPool(layout, 5, 16)
        assert pool.bytes_per_position == each and pool.nbytes == 5 * 16 * each


@pytest.mark.parametrize("key", KEYS)
def test_the_same_with_real_memory_for_one_layer_of_each_group(key):
    """No shortcut of the meta device: the bytes of the tensors that a layer reads."""
    for group in with_cache(published.model(key)):
        config = config_of(group, layers=1)
        n = 9 if group.window is None else group.window + 9
        new = torch.zeros(1, config.n_kv_heads, n, config.d_head, dtype=torch.bfloat16)
        if group.window is None:
            cache: KVCache = PreallocatedCache(config, n, 1, torch.bfloat16)
            k, v = cache.update(0, new, new)
        else:
            cache = ring = RingCache(config, group.window, 1, torch.bfloat16)
            ring.update(0, new, new)
            k, v = ring.view(0)
        expected = 2 * group.n_kv_heads * group.d_head * group.positions_kept(n) * 2
        assert cache.nbytes == k.nbytes + v.nbytes == expected


@pytest.mark.parametrize(
    "key", [key for key in KEYS if all(group.kind == "full" for group in published.model(key).layers)]
)
@pytest.mark.parametrize(("bits", "keys"), [(8, "channel"), (8, "token"), (4, "channel"), (4, "token")])
def test_codes_and_scales_too(key, bits, keys):
    """Real codes (numpy has no meta device), two layers of each shape."""
    model = published.model(key)
    (group,) = model.layers
    config = config_of(group, layers=2)
    for n in (5, 37):
        cache = QuantisedCache(config, bits, keys, 16, 40, BATCH, torch.bfloat16)
        held = fill(cache, config, n, torch.bfloat16, "cpu")
        assert held * group.layers == 2 * arithmetic.quantised_kv_bytes(model, n, BATCH, bits, keys, 16)


# What the papers say of latent attention: a row of d_c values and a RoPE key of d_R values, shared by all heads.
# DeepSeek-V2 (arXiv 2405.04434): d_c = 4 d_h = 512, d_R = d_h / 2 = 64, table 1: (d_c + d_R) l = 9/2 d_h l values per
# token. DeepSeek-V3 (arXiv 2412.19437, section 4.2): the same sizes in 61 layers.
LATENT = {"deepseek-v2": (60, 128), "deepseek-v3": (61, 128)}


def test_latent_rows_equal_the_published_formula():
    found = {key for key in KEYS if any(group.kind == "latent" for group in published.model(key).layers)}
    assert found == set(LATENT)
    for key, (layers, d_h) in LATENT.items():
        per_token = layers * (4 * d_h + d_h // 2)
        assert per_token == layers * 9 * d_h // 2
        assert arithmetic.kv_values_per_token(key, 1000) == per_token
        for n in LENGTHS:
            assert arithmetic.kv_bytes(key, n, BATCH, 2) == per_token * n * BATCH * 2
    # V2 against its own heads, K and V of 128 heads: 57 times smaller
    assert arithmetic.kv_cache_bytes(60, 128, 128, 1) // arithmetic.kv_bytes("deepseek-v2", 1) == 56


# Gated DeltaNet as in Qwen3-Next: a matrix (d_k x d_v) for each of 32 value heads, and the last inputs of a short
# convolution over the channels of Q, K (16 heads each) and V (32 heads), kernel 4.
def test_recurrent_state_equals_its_formula_and_does_not_grow():
    found = {key for key in KEYS if any(group.kind == "none" for group in published.model(key).layers)}
    assert found == {"qwen3-next-80b"}
    d_k = d_v = 128
    state = 32 * d_k * d_v + (16 * d_k + 16 * d_k + 32 * d_v) * 4
    assert arithmetic.state_bytes("qwen3-next-80b", BATCH, 2) == 36 * state * BATCH * 2
    held = torch.zeros(36, BATCH, 32, d_k, d_v, device="meta", dtype=torch.bfloat16)
    window = torch.zeros(36, BATCH, 8192, 4, device="meta", dtype=torch.bfloat16)
    assert arithmetic.state_bytes("qwen3-next-80b", BATCH, 2) == held.nbytes + window.nbytes
    growth = [arithmetic.kv_bytes("qwen3-next-80b", n + 1) - arithmetic.kv_bytes("qwen3-next-80b", n) for n in LENGTHS]
    assert growth == [arithmetic.kv_cache_bytes(12, 2, 256, 1)] * 3, "only the twelve full layers grow"


def test_other_models_have_no_state():
    assert all(arithmetic.state_bytes(key) == 0 for key in KEYS if key != "qwen3-next-80b")
