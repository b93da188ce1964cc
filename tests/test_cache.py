"""Caches: what goes in comes out, nothing is copied where nothing should be, a failed call changes nothing."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.cache import GrowingCache, PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.loading import random_model
from kvlab.model import Llama

CONFIG = ModelConfig(vocab_size=40, d_model=16, n_layers=2, n_heads=4, n_kv_heads=2, d_head=6, d_ff=24, max_len=32)
KINDS = [GrowingCache, PreallocatedCache]


def make(kind: type, max_len: int = 32) -> GrowingCache | PreallocatedCache:
    return kind(CONFIG) if kind is GrowingCache else kind(CONFIG, max_len, dtype=torch.float64)


def entry(n: int, seed: int) -> torch.Tensor:
    return torch.randn(1, 2, n, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(st.tuples(st.just("append"), st.integers(1, 9)), st.tuples(st.just("truncate"), st.integers(0, 40)))
)


@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_any_script_of_appends_and_truncations(kind: type, steps: list[Step]) -> None:
    """Against plain Python lists of rows; a call that must fail changes nothing."""
    cache = make(kind)
    held: list[list[torch.Tensor]] = [[], []]  # rows of K of each layer
    for i, (what, n) in enumerate(steps):
        if what == "append":
            for layer in range(2):
                new = entry(n, seed=10 * i + layer)
                if len(held[layer]) + n > 32:
                    with pytest.raises(ValueError, match="do not fit"):
                        cache.update(layer, new, new + 1)
                else:
                    k, v = cache.update(layer, new, new + 1)
                    held[layer] += list(new.unbind(2))
                    assert torch.equal(k, torch.stack(held[layer], 2))
                    assert torch.equal(v, torch.stack(held[layer], 2) + 1)
        elif n > len(held[0]):
            with pytest.raises(ValueError, match="can keep between"):
                cache.truncate(n)
        else:
            cache.truncate(n)
            held = [rows[:n] for rows in held]
        assert cache.length == len(held[0])
        assert cache.nbytes == 2 * 2 * len(held[0]) * 2 * 6 * 8  # K and V x layers x rows x heads x width x float64


def test_preallocated_views_share_memory_and_growing_ones_do_not() -> None:
    for kind, shared in ((PreallocatedCache, True), (GrowingCache, False)):
        cache = make(kind)
        before, _ = cache.update(0, entry(3, 0), entry(3, 1))
        after, _ = cache.update(0, entry(1, 2), entry(1, 3))
        assert (before.data_ptr() == after.data_ptr()) is shared


def test_reserved_bytes_are_the_whole_room() -> None:
    assert make(PreallocatedCache, 20).reserved_bytes == 2 * 2 * 20 * 2 * 6 * 8  # type: ignore[union-attr]


@pytest.mark.parametrize("max_len", [0, 33, -1, 2.5, "8"])
def test_room_must_be_within_the_window(max_len: int) -> None:
    with pytest.raises(ValueError, match="max_len must be"):
        PreallocatedCache(CONFIG, max_len)


def test_without_max_len_the_room_is_the_window() -> None:
    assert PreallocatedCache(CONFIG).max_len == 32


@pytest.fixture(scope="module")
def model() -> Llama:
    return random_model(CONFIG, "cpu", torch.float64)


@pytest.mark.parametrize("kind", KINDS)
@given(
    ids=st.lists(st.integers(0, 39), min_size=2, max_size=24),
    cuts=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    keep=st.integers(0, 24),
)
@settings(max_examples=40, deadline=None)
def test_cached_logits_equal_uncached(model: Llama, kind: type, ids: list[int], cuts: list[int], keep: int) -> None:
    """A sequence fed in chunks of any size, cut back and fed again, gives the logits of one pass."""
    whole = model(torch.tensor(ids))
    cache = make(kind)
    for round_ in range(2):
        start = cache.length
        sizes = iter(cuts * 24)
        while start < len(ids):
            end = min(len(ids), start + next(sizes))
            logits = model(torch.tensor(ids[start:end]), cache)
            torch.testing.assert_close(logits, whole[start:end])
            start = end
        if round_ == 0:
            cache.truncate(min(keep, len(ids) - 1))
            assert cache.length == min(keep, len(ids) - 1)


# --- what must not be written ----------------------------------------------------------------------------------------


def state(cache: GrowingCache | PreallocatedCache) -> list[torch.Tensor]:
    """All that the cache holds, layer by layer, copied."""
    copied = copy.deepcopy(cache)
    nothing = torch.empty(1, 2, 0, 6, dtype=torch.float64)
    return [t.clone() for layer in range(2) for t in copied.update(layer, nothing, nothing)]


WRONG_PAIRS = {
    "one KV head": (torch.ones(1, 1, 1, 6), torch.ones(1, 1, 1, 6)),
    "narrow heads": (torch.ones(1, 2, 1, 1), torch.ones(1, 2, 1, 1)),
    "fewer values": (torch.ones(1, 2, 3, 6), torch.ones(1, 2, 1, 6)),
    "more values": (torch.ones(1, 2, 1, 6), torch.ones(1, 2, 3, 6)),
    "wide values": (torch.ones(1, 2, 1, 6), torch.ones(1, 2, 1, 8)),
    "no batch axis": (torch.ones(2, 1, 6), torch.ones(2, 1, 6)),
    "two sequences": (torch.ones(2, 2, 1, 6), torch.ones(2, 2, 1, 6)),
}


@pytest.mark.parametrize("held", [0, 2])
@pytest.mark.parametrize("name", WRONG_PAIRS)
@pytest.mark.parametrize("kind", KINDS)
def test_keys_and_values_of_a_wrong_shape_are_refused_and_nothing_changes(kind: type, name: str, held: int) -> None:
    cache = make(kind)
    for layer in range(2):
        cache.update(layer, entry(held, layer), entry(held, 5 + layer))
    before = state(cache)
    k, v = (t.double() for t in WRONG_PAIRS[name])
    with pytest.raises(ValueError, match="k and v must both be"):
        cache.update(0, k, v)
    assert cache.length == held
    assert all(torch.equal(a, b) for a, b in zip(before, state(cache), strict=True))


@pytest.mark.parametrize("layer", [-1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_that_is_not_there_is_named(kind: type, layer: int) -> None:
    cache = make(kind)
    with pytest.raises(ValueError, match=f"no layer {layer}: layers are 0 to 1"):
        cache.update(layer, entry(1, 0), entry(1, 0))
    if isinstance(cache, PreallocatedCache):
        with pytest.raises(ValueError, match=f"no layer {layer}"):
            cache.view(layer)
    assert cache.nbytes == 0


@pytest.mark.parametrize("kind", KINDS)
def test_another_dtype_is_refused_and_not_cast(kind: type) -> None:
    cache = make(kind)
    cache.update(0, entry(2, 0), entry(2, 1))
    with pytest.raises(ValueError, match=r"float64 .*float32 .*does not fit"):
        cache.update(0, entry(1, 2).float(), entry(1, 3).float())
    with pytest.raises(ValueError, match="both must be alike"):
        cache.update(0, entry(1, 2), entry(1, 3).float())
    assert cache.nbytes == 2 * 2 * 2 * 6 * 8


def test_a_growing_cache_keeps_its_own_copy() -> None:
    cache, k, v = make(GrowingCache), entry(2, 0), entry(2, 1)
    right = k.clone(), v.clone()
    for layer in range(2):
        cache.update(layer, k, v)
    k.zero_()
    v.zero_()
    held_k, held_v = cache.update(0, entry(1, 2), entry(1, 3))
    assert torch.equal(held_k[:, :, :2], right[0])
    assert torch.equal(held_v[:, :, :2], right[1])


def test_an_emptied_growing_cache_takes_another_dtype() -> None:
    cache = make(GrowingCache)
    cache.update(0, entry(2, 0), entry(2, 1))
    cache.truncate(0)
    assert cache.update(0, entry(1, 0).float(), entry(1, 1).float())[0].dtype == torch.float32


@pytest.mark.parametrize("length", [1.5, "1", None, True])
@pytest.mark.parametrize("kind", KINDS)
def test_only_a_whole_number_of_positions_can_be_kept(kind: type, length: object) -> None:
    cache = make(kind)
    for layer in range(2):
        cache.update(layer, entry(3, 0), entry(3, 1))
    with pytest.raises(ValueError, match="length must be a whole number"):
        cache.truncate(length)  # type: ignore[arg-type]
    assert cache.length == 3


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_of_unequal_length_can_be_made_equal(kind: type, first: int) -> None:
    cache = make(kind)
    cache.update(first, entry(5, 0), entry(5, 1))
    assert cache.length == 0
    cache.update(1 - first, entry(3, 0), entry(3, 1))
    assert cache.length == 3
    cache.truncate(4)
    assert cache.nbytes == 2 * (4 + 3) * 2 * 6 * 8
    cache.truncate(2)
    assert (cache.length, cache.nbytes) == (2, 2 * (2 + 2) * 2 * 6 * 8)


@pytest.mark.parametrize("batch", [0, -1, 1.5])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_must_be_a_whole_number(kind: type, batch: float) -> None:
    with pytest.raises(ValueError, match="batch must be"):
        kind(CONFIG, batch=batch)
