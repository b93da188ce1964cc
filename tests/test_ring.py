"""A ring gives what full attention with a window mask gives, in constant memory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.attention import sliding_window_attention, sliding_window_mask
from kvlab.ring import RingCache, ring_positions
from test_engine import CONFIG, MODEL


def ring(window):
    return RingCache(CONFIG, window, dtype=torch.float64)


def windowed(ids, window):
    """All at once: a ring that is fed in one piece computes with the mask alone."""
    return MODEL(torch.tensor(ids), ring(window))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 49), min_size=1, max_size=40), st.integers(1, 12), st.data())
def test_fed_in_pieces_it_equals_fed_at_once(ids, window, data):
    cache, parts, at = ring(window), [], 0
    with torch.no_grad():
        while at < len(ids):
            n = data.draw(st.integers(1, len(ids) - at))
            parts.append(MODEL(torch.tensor(ids[at : at + n]), cache))
            at += n
            assert cache.length == at and cache.positions() == ring_positions(at, window)
        torch.testing.assert_close(torch.cat(parts), windowed(ids, window))
    per_position = 2 * CONFIG.n_layers * CONFIG.n_kv_heads * CONFIG.d_head * 8
    assert cache.nbytes == per_position * min(len(ids), window)


def test_a_window_as_long_as_the_text_changes_nothing():
    ids = torch.arange(20)
    with torch.no_grad():
        torch.testing.assert_close(MODEL(ids, ring(20)), MODEL(ids))
        assert not torch.allclose(MODEL(ids, ring(5))[-1], MODEL(ids)[-1])


@pytest.mark.parametrize(("n_q", "n_k", "window"), [(1, 1, 1), (5, 5, 2), (3, 9, 4), (4, 4, 9)])
def test_the_mask_and_its_attention_by_loops(n_q, n_k, window):
    mask = sliding_window_mask(n_q, n_k, window)
    for i in range(n_q):
        position = n_k - n_q + i
        assert mask[i].tolist() == [position - window < j <= position for j in range(n_k)]
    q, k, v = (torch.randn(1, h, n, 8, dtype=torch.float64) for h, n in ((4, n_q), (2, n_k), (2, n_k)))
    out = sliding_window_attention(q, k, v, window)
    for h in range(4):
        for i in range(n_q):
            seen = mask[i].nonzero().flatten()
            weights = (k[0, h // 2, seen] @ q[0, h, i] / 8**0.5).softmax(0)
            torch.testing.assert_close(out[0, h, i], weights @ v[0, h // 2, seen])


def test_the_last_step_can_be_taken_back():
    ids = torch.arange(30)
    cache = ring(6)
    with torch.no_grad():
        MODEL(ids[:20], cache)
        right = MODEL(ids[20:23], cache)
        cache.truncate(20)
        torch.testing.assert_close(MODEL(ids[20:23], cache), right)
        with pytest.raises(ValueError, match="cannot go back to 10"):
            cache.truncate(10)
        assert cache.length == 23
        cache.truncate(0)
        assert cache.length == 0 and cache.nbytes == 0


def test_a_failed_step_leaves_the_ring_as_it_was(monkeypatch):
    ids = torch.arange(30)
    cache = ring(6)
    with torch.no_grad():
        MODEL(ids[:20], cache)
        right = MODEL(ids[20:21], ring_copy(cache))
        with monkeypatch.context() as patch:
            patch.setattr(MODEL.model.layers[1], "forward", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                MODEL(ids[20:21], cache)
        assert cache.length == 20
        torch.testing.assert_close(MODEL(ids[20:21], cache), right)


def ring_copy(cache):
    import copy

    return copy.deepcopy(cache)


@pytest.mark.parametrize("bad", [(-1, 3), (3, 0), (3, -1), (1.5, 3)])
def test_bad_sizes(bad):
    with pytest.raises(ValueError):
        ring_positions(*bad)
    with pytest.raises(ValueError):
        sliding_window_mask(3, 2, 1)
    with pytest.raises(ValueError):
        sliding_window_mask(2, 3, 0)
    with pytest.raises(ValueError):
        RingCache(CONFIG, 0)


@pytest.mark.parametrize(("window", "batch"), [(10**12, 1), (8, 10**11)])
def test_a_ring_larger_than_the_memory_is_refused_before_it_is_made(window, batch):
    with pytest.raises(ValueError, match=r"a ring of .* are free: choose a smaller window or batch"):
        RingCache(CONFIG, window, batch)
    RingCache(CONFIG, window, batch, device="meta")  # no memory at all
