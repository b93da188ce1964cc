"""Tiled attention against plain attention and torch's fused kernel, and the count of what a function makes."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.attention import causal_attention
from kvlab.tiled import largest_intermediate, online_softmax_attention


def heads(
    n: int, n_heads: int = 2, d: int = 8, seed: int = 0, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(n_heads, n, d, generator=draw, dtype=dtype) for _ in range(3)]


def loops(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: list[bool]) -> torch.Tensor:
    """One position of one head at a time."""
    out = torch.zeros_like(v)
    for h in range(q.shape[0]):
        for i in range(q.shape[1]):
            keys = [j for j in range(i + 1) if seen[j]]
            weights = [math.exp(float(q[h, i] @ k[h, j]) / math.sqrt(q.shape[2])) for j in keys]
            for j, weight in zip(keys, weights, strict=True):
                out[h, i] += weight / sum(weights) * v[h, j]
    return out


@given(n=st.integers(1, 40), block=st.integers(1, 48), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_every_tile_size_gives_plain_attention(n: int, block: int, seed: int) -> None:
    q, k, v = heads(n, seed=seed, dtype=torch.float64)
    result = online_softmax_attention(q, k, v, block)
    torch.testing.assert_close(result, causal_attention(q, k, v), rtol=1e-12, atol=1e-12)


def test_against_loops_with_another_width_of_values_and_padding() -> None:
    q, k, _ = heads(13, dtype=torch.float64)
    v = heads(13, d=5, seed=1, dtype=torch.float64)[2]
    seen = [True] * 13
    torch.testing.assert_close(online_softmax_attention(q, k, v, 4), loops(q, k, v, seen))
    for hidden in ((3,), (1, 2, 3, 4, 5, 6, 7), (12,)):
        mask = torch.tensor([j not in hidden for j in range(13)])
        torch.testing.assert_close(online_softmax_attention(q, k, v, 3, mask), loops(q, k, v, mask.tolist()))


def test_large_scores_neither_overflow_nor_vanish() -> None:
    """Scores that grow along the row: every tile brings a new maximum. exp(1000) is inf in float64."""
    n = 24
    q, k = (
        torch.ones(1, n, 4, dtype=torch.float64),
        torch.arange(n, dtype=torch.float64).view(1, n, 1).expand(1, n, 4) * 40,
    )
    v = heads(n, 1, 4, dtype=torch.float64)[2]
    for scale in (1.0, -1.0):
        result = online_softmax_attention(q * scale, k, v, 5)
        assert result.isfinite().all()
        torch.testing.assert_close(result, causal_attention(q * scale, k, v))


@pytest.mark.parametrize("n", [512, 2048])
@pytest.mark.parametrize("block", [64, 128])
def test_fp32_against_the_fused_kernel_and_what_was_made(n: int, block: int) -> None:
    q, k, v = heads(n, 1, 32)
    tiled = largest_intermediate(online_softmax_attention, q, k, v, block)
    fused = largest_intermediate(F.scaled_dot_product_attention, q[None], k[None], v[None], is_causal=True)
    plain = largest_intermediate(causal_attention, q, k, v)
    assert float((tiled.result - fused.result[0]).abs().max()) < 1e-5
    assert float((tiled.result - plain.result).abs().max()) < 1e-5
    assert tiled.elements == max(block * block, n * 32)
    assert fused.elements == n * 32
    assert plain.elements == n * n and plain.nbytes == 4 * n * n


@pytest.mark.slow
def test_at_8192_positions_no_square_is_made() -> None:
    n, block = 8192, 128
    q, k, v = heads(n, 1, 64)
    tiled = largest_intermediate(online_softmax_attention, q, k, v, block)
    fused = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    assert float((tiled.result - fused).abs().max()) < 1e-5
    assert tiled.elements == n * 64
    assert tiled.nbytes == 4 * n * 64, "a square in float32 would be 268 MB, this is 2 MB"


def test_half_precision_is_summed_in_float32() -> None:
    q, k, v = heads(200, dtype=torch.bfloat16)
    result = online_softmax_attention(q, k, v, 16)
    assert result.dtype == torch.bfloat16
    exact = causal_attention(q.double(), k.double(), v.double())
    assert (
        float((result.double() - exact).abs().max())
        <= float((exact.to(torch.bfloat16).double() - exact).abs().max()) * 1.5
    )


def test_inputs_stay_as_they_were() -> None:
    given = heads(20)
    before = [t.clone() for t in given]
    online_softmax_attention(*given, 7, torch.ones(20, dtype=torch.bool))
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))


def test_views_and_arguments_are_not_counted() -> None:
    big = torch.zeros(1000, 10)
    assert largest_intermediate(lambda x: x.t().expand(10, 1000)[:2], big).nbytes == 0
    made = largest_intermediate(lambda x: x[:3] + 1, big)
    assert (made.shape, made.nbytes, made.op, made.elements) == ((3, 10), 120, "aten.add.Tensor", 30)
    assert torch.equal(made.result, torch.ones(3, 10))
    assert largest_intermediate(lambda: torch.ones(4, dtype=torch.bool).any()).shape == (4,)
    assert largest_intermediate(lambda x: x.add_(1), torch.zeros(5)).nbytes == 0


def test_a_row_without_any_key_is_named() -> None:
    q, k, v = heads(6)
    mask = torch.tensor([False, False, True, True, True, True])
    with pytest.raises(ValueError, match=r"the first 2 position\(s\) may attend to no key at all"):
        online_softmax_attention(q, k, v, 2, mask)
    with pytest.raises(ValueError, match=r"the first 6 position\(s\)"):
        online_softmax_attention(q, k, v, 2, torch.zeros(6, dtype=torch.bool))


def test_refusals() -> None:
    q, k, v = heads(6)
    for block in (0, -1, 2.5):
        with pytest.raises(ValueError, match="block_size"):
            online_softmax_attention(q, k, v, block)  # type: ignore[arg-type]
    for bad in ((q[0], k, v), (q, k[:, :5], v), (q[:1], k, v), (q, k, v[:, :5]), (q.long(), k, v)):
        with pytest.raises(ValueError, match="q, k and v must"):
            online_softmax_attention(*bad, 2)
    for mask in (torch.ones(5, dtype=torch.bool), torch.ones(6), [True] * 6):
        with pytest.raises(ValueError, match="key_mask must be a bool tensor"):
            online_softmax_attention(q, k, v, 2, mask)  # type: ignore[arg-type]
