"""Caches: what goes in comes out, nothing is copied where nothing should be, a failed call changes nothing."""

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


@pytest.mark.parametrize("max_len", [0, 33, -1])
def test_room_must_be_within_the_window(max_len: int) -> None:
    if max_len == 0:
        assert PreallocatedCache(CONFIG, None).max_len == 32
    else:
        with pytest.raises(ValueError, match="between 1 and the model's window 32"):
            PreallocatedCache(CONFIG, max_len)


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
