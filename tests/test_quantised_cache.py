"""The cache in 8 and 4 bits against a reference written value by value, its error bounds, and its bytes."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import kvlab
from kvlab import arithmetic
from kvlab.cache import PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.generate import generate_cached
from kvlab.quantised_cache import QuantisedCache
from kvlab.sampling import SamplingSettings

CONFIG = ModelConfig(30, 16, 2, 4, 2, 6, 32, 64)
KINDS = [(bits, keys) for bits in (8, 4) for keys in ("channel", "token")]


def random_kv(n: int, seed: int = 0, batch: int = 1, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(seed)
    return tuple(torch.randn(2, batch, CONFIG.n_kv_heads, n, CONFIG.d_head, dtype=dtype))


# --- a reference without tensors: one float after another ------------------------------------------------------------


def rounded(row: list[float], bits: int) -> list[float]:
    """Absmax rounding of one row, in float32 as the codes are read."""
    limit = 2 ** (bits - 1) - 1
    scale = np.float32(max(map(abs, row)) / limit) or np.float32(1)
    codes = [max(-limit, min(limit, round(float(np.float32(x) / scale)))) for x in row]  # Python rounds halves to even
    return [float(np.float32(code) * scale) for code in codes]


class Reference:
    """One head of one layer. `k` holds what a reader sees; a group is rounded once its last token is there."""

    def __init__(self, bits: int, keys: str, group: int) -> None:
        self.bits, self.group = bits, 1 if keys == "token" else group
        self.keys, self.done = keys, 0
        self.k: list[list[float]] = []
        self.v: list[list[float]] = []
        self.before: tuple[list[list[float]], int] = ([], 0)

    def append(self, k: list[list[float]], v: list[list[float]]) -> None:
        self.before = (list(self.k), self.done)
        self.v += [rounded(row, self.bits) for row in v]
        self.k += [rounded(row, self.bits) for row in k] if self.keys == "token" else k
        if self.keys == "token":
            return
        while len(self.k) - self.done >= self.group:
            columns = zip(*self.k[self.done : self.done + self.group], strict=True)
            rows = zip(*[rounded(list(column), self.bits) for column in columns], strict=True)
            self.k[self.done : self.done + self.group] = [list(row) for row in rows]
            self.done += self.group

    def truncate(self, length: int) -> None:
        if length == len(self.k):
            return
        if length == len(self.before[0]):  # the last update is undone exactly
            self.k, self.done = list(self.before[0]), self.before[1]
        self.k, self.v = self.k[:length], self.v[:length]
        self.done = min(self.done, length // self.group * self.group)


moves = st.lists(st.tuples(st.sampled_from(["append", "cut", "undo"]), st.integers(0, 7)), min_size=1, max_size=10)


@settings(max_examples=120, deadline=None)
@given(moves, st.sampled_from(KINDS), st.sampled_from([2, 4, 6]), st.integers(0, 2**20))
def test_any_row_of_updates_and_cuts_equals_the_reference(trace, kind, group, seed):
    bits, keys = kind
    cache = QuantisedCache(CONFIG, bits, keys, group, max_len=40)
    heads = [Reference(bits, keys, group) for _ in range(CONFIG.n_kv_heads)]
    last = 0  # where the last update began
    for i, (move, n) in enumerate(trace):
        held = cache.length
        if move != "append":
            length = min(last, held) if move == "undo" else max(0, held - n)
            cache.truncate(length)
            for head in heads:
                head.truncate(length)
        elif held + n <= cache.max_len:
            last = held
            k, v = random_kv(n, seed + i)
            for layer in range(CONFIG.n_layers):
                cache.update(layer, k, v)
            for h, head in enumerate(heads):
                head.append(k[0, h].tolist(), v[0, h].tolist())
        for layer in range(CONFIG.n_layers):
            k, v = cache.view(layer)
            for h, head in enumerate(heads):
                torch.testing.assert_close(k[0, h], torch.tensor(head.k).reshape(-1, CONFIG.d_head), rtol=0, atol=1e-6)
                torch.testing.assert_close(v[0, h], torch.tensor(head.v).reshape(-1, CONFIG.d_head), rtol=0, atol=1e-6)
        assert cache.nbytes == arithmetic.quantised_kv_bytes(CONFIG, cache.length, 1, bits, keys, group, 4)


@pytest.mark.parametrize(("bits", "keys"), KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_errors_stay_within_half_a_step_and_the_newest_keys_are_exact(bits, keys, dtype):
    cache = QuantisedCache(CONFIG, bits, keys, 4, batch=3, dtype=dtype)
    k, v = random_kv(14, batch=3, dtype=dtype)
    got_k, got_v = cache.update(0, k, v)
    assert got_k.dtype == got_v.dtype == dtype and got_k.shape == k.shape
    slack = 2.0**-7 * v.abs().max() if dtype == torch.bfloat16 else 1e-6  # the result is a bfloat16 again
    limit = 2 ** (bits - 1) - 1
    step = v.abs().amax(3, keepdim=True).double() / limit
    assert ((got_v - v).abs().double() <= step / 2 + slack).all() and not torch.equal(got_v, v)
    if keys == "channel":
        assert torch.equal(got_k[:, :, 12:], k[:, :, 12:]) and not torch.equal(got_k[:, :, 8:12], k[:, :, 8:12])
        groups = k[:, :, :12].unflatten(2, (3, 4))
        step = (groups.abs().amax(3, keepdim=True).double() / limit).expand_as(groups).flatten(2, 3)
        assert ((got_k - k)[:, :, :12].abs().double() <= step / 2 + slack).all()
    else:
        step = k.abs().amax(3, keepdim=True).double() / limit
        assert ((got_k - k).abs().double() <= step / 2 + slack).all()


def test_a_large_channel_spoils_every_token_but_only_its_own_channel():
    """The reason for K per channel: one channel 50 times larger than the others."""
    k, v = random_kv(32)
    k[..., 2] *= 50
    error = {}
    for keys in ("channel", "token"):
        got, _ = QuantisedCache(CONFIG, 4, keys, 32).update(0, k, v)
        others = [channel for channel in range(CONFIG.d_head) if channel != 2]
        error[keys] = (got - k)[..., others].square().mean().sqrt().item()
    assert error["token"] > 5 * error["channel"], error


def test_the_primer_says_the_same_in_8_bits_and_drifts_further_in_4():
    model = kvlab.load("primer")
    text = "Mira lives in a small house by the sea. Every morning she walks to the harbour with her brother."
    ids = torch.tensor(model.tokenizer.encode(text))
    exact = model(ids).log_softmax(-1)
    gaps = {}
    for bits, keys in KINDS:
        cache = QuantisedCache(model.config, bits, keys, 8)
        got = model(ids, cache).log_softmax(-1)
        gaps[bits, keys] = (exact.exp() * (exact - got)).sum(-1).mean().item()  # KL divergence per position, nats
        assert cache.length == len(ids)
    assert max(gaps[8, "channel"], gaps[8, "token"]) < 0.01, gaps
    assert min(gaps[4, "channel"], gaps[4, "token"]) > 5 * max(gaps[8, "channel"], gaps[8, "token"]), gaps
    greedy = SamplingSettings(temperature=0)
    cache = QuantisedCache(model.config, 8)
    alone = generate_cached(model, ids.tolist(), 8, greedy).tokens
    assert generate_cached(model, ids.tolist(), 8, greedy, cache=cache).tokens == alone


# --- going back ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "keys"), KINDS)
def test_the_last_update_is_undone_exactly(bits, keys):
    cache = QuantisedCache(CONFIG, bits, keys, 4)
    first, second = random_kv(6, 1), random_kv(7, 2)
    for layer in range(2):
        cache.update(layer, *first)
    before = [tuple(part.clone() for part in cache.view(layer)) for layer in range(2)]
    cache.update(0, *second)  # finishes two groups of layer 0; layer 1 is left behind, as when a pass fails
    cache.truncate(6)
    for layer in range(2):
        assert all(torch.equal(a, b) for a, b in zip(cache.view(layer), before[layer], strict=True))
    twin = QuantisedCache(CONFIG, bits, keys, 4)
    twin.update(0, *first)
    want = twin.update(0, *second)
    assert all(torch.equal(a, b) for a, b in zip(cache.update(0, *second), want, strict=True))


def test_a_failed_pass_leaves_the_cache_as_it_was(monkeypatch):
    model = kvlab.load("primer")
    cache = QuantisedCache(model.config, 4, "channel", 4)
    model(torch.arange(3, 9), cache)
    before = [tuple(part.clone() for part in cache.view(layer)) for layer in range(model.config.n_layers)]
    size = cache.nbytes

    def fail(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(model.model.layers[4].mlp, "forward", fail)
    with pytest.raises(KeyboardInterrupt):
        model(torch.arange(20, 29), cache)
    assert cache.length == 6 and cache.nbytes == size
    for layer, parts in enumerate(before):
        assert all(torch.equal(a, b) for a, b in zip(cache.view(layer), parts, strict=True))


def test_a_cut_through_a_finished_group_keeps_what_was_held():
    cache = QuantisedCache(CONFIG, 4, "channel", 4)
    k, v = random_kv(8)
    held, _ = cache.update(0, k[:, :, :3], v[:, :, :3])
    held, _ = cache.update(0, k[:, :, 3:], v[:, :, 3:])
    held = held.clone()
    cache.truncate(6)
    left, _ = cache.view(0)
    assert torch.equal(left, held[:, :, :6])
    again, _ = cache.update(0, k[:, :, 6:], v[:, :, 6:])
    assert torch.equal(again[:, :, :4], held[:, :, :4]) and again.shape[2] == 8


# --- bytes -----------------------------------------------------------------------------------------------------------


def test_bytes_are_counted_by_hand():
    # 10 tokens, groups of 4, 6 channels, 2 heads, 2 layers: V 10 rows of 6 codes and a scale;
    # K two groups of 6 channels with 4 codes and a scale each, and 2 tokens of 6 float32.
    for bits, v_row, k_group in ((8, 6 + 4, 6 * (4 + 4)), (4, 3 + 4, 6 * (2 + 4))):
        cache = QuantisedCache(CONFIG, bits, "channel", 4)
        for layer in range(2):
            cache.update(layer, *random_kv(10))
        assert cache.nbytes == 2 * 2 * (10 * v_row + 2 * k_group + 2 * 6 * 4)
        per_token = QuantisedCache(CONFIG, bits, "token")
        for layer in range(2):
            per_token.update(layer, *random_kv(10))
        assert per_token.nbytes == 2 * 2 * 2 * 10 * v_row


def test_llama_3_8b_needs_about_a_half_and_a_quarter():
    plain = arithmetic.kv_bytes("llama-3-8b", 8192)
    shares = {bits: arithmetic.quantised_kv_bytes("llama-3-8b", 8192, bits=bits) / plain for bits in (8, 4)}
    # K 8 or 4 bits and 32 / 32 for the scale, V 8 or 4 and 32 / 128
    assert shares == {8: ((8 + 1) + (8 + 0.25)) / 32, 4: ((4 + 1) + (4 + 0.25)) / 32}
    rest = arithmetic.quantised_kv_bytes("llama-3-8b", 33, bits=4) - arithmetic.quantised_kv_bytes(
        "llama-3-8b", 32, bits=4
    )
    assert rest == 32 * 8 * (128 * 2 + 64 + 4)


@pytest.mark.parametrize("bad", [{"bits": 2}, {"keys": "row"}, {"group": 0}, {"seq_len": -1}, {"batch": -1}])
def test_the_formula_refuses_what_it_does_not_count(bad):
    with pytest.raises(ValueError):
        arithmetic.quantised_kv_bytes("llama-3-8b", **{"seq_len": 8} | bad)
    with pytest.raises(ValueError, match="full attention only"):
        arithmetic.quantised_kv_bytes("mistral-7b-v0.1", 8)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"bits": 2},
        {"bits": "8"},
        {"keys": "row"},
        {"group": 0},
        {"bits": 4, "group": 3},
        {"max_len": 65},
        {"max_len": 0},
        {"batch": 0},
        {"dtype": torch.int8},
    ],
)
def test_bad_settings_are_refused(options):
    with pytest.raises(ValueError):
        QuantisedCache(CONFIG, **options)


def bad_updates() -> list[tuple[str, Callable[[QuantisedCache], object]]]:
    k, v = random_kv(2)
    nan = torch.full_like(k, math.nan)
    return [
        ("no layer 2", lambda c: c.update(2, k, v)),
        ("must both be", lambda c: c.update(0, k, v[:, :1])),
        ("float64", lambda c: c.update(0, k.double(), v.double())),
        ("NaN", lambda c: c.update(0, nan, v)),
        ("NaN", lambda c: c.update(0, k, nan)),
        ("do not fit", lambda c: c.update(0, *random_kv(6))),
        ("can keep", lambda c: c.truncate(8)),
        ("length", lambda c: c.truncate(-1)),
        ("no layer -1", lambda c: c.view(-1)),
    ]


@pytest.mark.parametrize(("message", "call"), bad_updates())
@pytest.mark.parametrize("keys", ["channel", "token"])
def test_bad_calls_change_nothing(message, call, keys):
    cache = QuantisedCache(CONFIG, 4, keys, 4, max_len=12)
    cache.update(0, *random_kv(7))
    before = tuple(part.clone() for part in cache.view(0))
    with pytest.raises(ValueError, match=message):
        call(cache)
    assert all(torch.equal(a, b) for a, b in zip(cache.view(0), before, strict=True))
    assert cache.nbytes > 0 and cache.length == 0


def test_what_the_caller_does_later_stays_outside_and_gradients_do_too():
    cache = QuantisedCache(CONFIG, 8, "channel", 4)
    k, v = random_kv(3)
    k.requires_grad_()
    got, _ = cache.update(0, k, v)
    want = got.clone()
    with torch.no_grad():
        k.zero_()
        got.zero_()
    assert torch.equal(cache.view(0)[0], want) and not want.requires_grad


def test_it_is_smaller_than_the_plain_cache_and_agrees_with_its_protocol():
    plain, small = PreallocatedCache(CONFIG), QuantisedCache(CONFIG, 4, "channel", 16)
    for cache in (plain, small):
        for layer in range(2):
            cache.update(layer, *random_kv(32))
    assert small.layout == plain.layout and small.length == plain.length == 32
    assert small.nbytes < 0.35 * plain.nbytes
    small.truncate(0)
    assert small.nbytes == 0 and small.view(0)[0].shape == (1, 2, 0, 6)
