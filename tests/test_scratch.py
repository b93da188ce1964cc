"""The numpy decoder: against torch's own parts, and its two loops against each other."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import scratch

SHAPES = [
    {"n_layers": 2, "n_heads": 4, "n_kv_heads": 2},
    {"n_layers": 3, "n_heads": 4, "n_kv_heads": 4},
    {"n_layers": 1, "n_heads": 8, "n_kv_heads": 1},
]


def prompt_of(length: int, seed: int = 0, vocab: int = 64) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(0, vocab, length)]


def torch_logits(model: scratch.Decoder, ids: list[int], mask: bool = True) -> torch.Tensor:
    """The same decoder from torch's parts: F.rms_norm, complex RoPE, scaled_dot_product_attention, F.silu."""
    heads, groups, d = model.n_heads, model.n_kv_heads, model.d_head
    n, half = len(ids), d // 2
    turns = torch.polar(
        torch.ones(n, half, dtype=torch.float64),
        torch.outer(torch.arange(n).double(), 10000.0 ** (-2 * torch.arange(half).double() / d)),
    )

    def rotated(x: torch.Tensor) -> torch.Tensor:
        pairs = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * turns
        return torch.cat([pairs.real, pairs.imag], dim=-1)

    x = torch.from_numpy(model.embedding)[ids]
    for layer in model.layers:
        w = {name: torch.from_numpy(value) for name, value in layer.items()}
        h = F.rms_norm(x, (x.shape[-1],), w["attn_norm"], eps=1e-5)
        q = rotated((h @ w["wq"]).view(n, heads, d).transpose(0, 1))
        k = rotated((h @ w["wk"]).view(n, groups, d).transpose(0, 1))
        v = (h @ w["wv"]).view(n, groups, d).transpose(0, 1)
        y = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=mask, enable_gqa=True)[0]
        x = x + y.transpose(0, 1).reshape(n, -1) @ w["wo"]
        h = F.rms_norm(x, (x.shape[-1],), w["mlp_norm"], eps=1e-5)
        x = x + (F.silu(h @ w["w_gate"]) * (h @ w["w_up"])) @ w["w_down"]
    return F.rms_norm(x, (x.shape[-1],), eps=1e-5) @ torch.from_numpy(model.head)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mask", [True, False])
def test_forward_equals_a_decoder_of_torch_parts(shape: dict, mask: bool) -> None:
    model = scratch.random_decoder(seed=1, **shape)
    for layer in model.layers:  # norms of one would hide a weight that is not used
        for name in ("attn_norm", "mlp_norm"):
            layer[name] = np.random.default_rng(2).uniform(0.5, 1.5, layer[name].shape)
    ids = prompt_of(17)
    logits, keys = scratch.forward(model, ids, mask)
    assert logits.shape == (17, 64) and logits.dtype == np.float64
    assert [k.shape for k in keys] == [(model.n_kv_heads, 17, model.d_head)] * shape["n_layers"]
    np.testing.assert_allclose(logits, torch_logits(model, ids, mask).numpy(), atol=1e-11)


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 5), st.sampled_from(SHAPES))
@settings(max_examples=40, deadline=None)
def test_both_loops_give_the_same_tokens_and_count_their_positions(
    length: int, n_new: int, seed: int, shape: dict
) -> None:
    model, prompt = scratch.random_decoder(seed=seed, **shape), prompt_of(length, seed)
    naive, cached = scratch.generate_naive(model, prompt, n_new), scratch.generate_cached(model, prompt, n_new)
    assert naive.tokens == cached.tokens and len(naive.tokens) == n_new
    assert naive.positions == sum(length + i for i in range(n_new))
    assert cached.positions == (length + n_new - 1 if n_new else 0)


def test_one_token_and_two_hundred_new_ones() -> None:
    model = scratch.random_decoder()
    naive, cached = scratch.generate_naive(model, [7], 200), scratch.generate_cached(model, [7], 200)
    assert (naive.positions, cached.positions) == (20_100, 200)
    assert naive.tokens == cached.tokens
    assert len(set(naive.tokens)) > 5  # a text that repeats one token would hide a broken cache


def test_decode_steps_give_the_logits_of_forward_and_grow_the_cache() -> None:
    model, ids = scratch.random_decoder(n_layers=3), prompt_of(9)
    logits, keys = scratch.forward(model, ids)
    cache = scratch.empty_cache(model)
    for n, token in enumerate(ids, start=1):
        np.testing.assert_allclose(scratch.decode_step(model, token, cache), logits[n - 1], atol=1e-12)
        assert all(layer["k"].shape == layer["v"].shape == (2, n, 8) for layer in cache)
    for layer, k in zip(cache, keys, strict=True):
        np.testing.assert_allclose(layer["k"], k, atol=1e-12)


def test_a_cache_that_lost_a_position_changes_the_logits() -> None:
    model, ids = scratch.random_decoder(), prompt_of(8)
    cache = scratch.empty_cache(model)
    scratch.run_layers(model, ids[:-1], cache)
    for layer in cache:
        layer["k"], layer["v"] = layer["k"][:, 1:], layer["v"][:, 1:]
    wrong = scratch.decode_step(model, ids[-1], cache)
    assert np.abs(wrong - scratch.forward(model, ids)[0][-1]).max() > 0.01


@pytest.mark.parametrize("seed", range(4))
def test_keys_stay_with_the_mask_and_move_without_it(seed: int) -> None:
    model, ids = scratch.random_decoder(n_layers=3, seed=seed), prompt_of(20, seed)
    assert max(scratch.key_drift(model, ids)) < 1e-13
    without = scratch.key_drift(model, ids, mask=False)
    assert without[0] < 1e-13  # layer 0's keys depend on their own token alone
    assert min(without[1:]) > 0.01


def test_weights_and_prompt_stay_unchanged() -> None:
    model, prompt = scratch.random_decoder(), prompt_of(5)
    before = [{name: value.copy() for name, value in layer.items()} for layer in model.layers]
    scratch.generate_cached(model, prompt, 5)
    scratch.generate_naive(model, prompt, 5)
    assert prompt == prompt_of(5)
    for layer, old in zip(model.layers, before, strict=True):
        assert all(np.array_equal(layer[name], old[name]) for name in old)


@pytest.mark.parametrize("ids", [[], [-1], [64], [3, 64]])
def test_bad_ids_raise_and_leave_the_cache_alone(ids: list[int]) -> None:
    model = scratch.random_decoder()
    for call in (scratch.forward, lambda m, i: scratch.generate_naive(m, i, 1), lambda m, i: scratch.key_drift(m, i)):
        with pytest.raises(ValueError, match="ids must"):
            call(model, ids)
    cache = scratch.empty_cache(model)
    with pytest.raises(ValueError, match="ids must"):
        scratch.decode_step(model, 64, cache)
    assert cache[0]["k"].shape[1] == 0
    for loop in (scratch.generate_naive, scratch.generate_cached):
        with pytest.raises(ValueError, match="n_new must"):
            loop(model, [1], -1)


def test_sizes_that_do_not_fit_raise() -> None:
    for bad in ({"d_model": 30}, {"d_model": 36, "n_heads": 12}, {"n_heads": 4, "n_kv_heads": 3}):
        with pytest.raises(ValueError, match="n_heads"):
            scratch.random_decoder(**bad)
