"""Attention kernels against a loop over single positions, and against each other."""

import math

import pytest
import torch

from kvlab import attention


def loop_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """One query of one head at a time: q (B, H, n_q, d), k and v (B, H_kv, n_k, d)."""
    batch, n_heads, n_q, d = q.shape
    n_kv_heads, n_k = k.shape[1], k.shape[2]
    out = torch.zeros_like(q)
    for b in range(batch):
        for h in range(n_heads):
            kv = h // (n_heads // n_kv_heads)
            for i in range(n_q):
                last = n_k - n_q + i
                weights = [math.exp(float(q[b, h, i] @ k[b, kv, j]) / math.sqrt(d)) for j in range(last + 1)]
                for j, weight in enumerate(weights):
                    out[b, h, i] += weight / sum(weights) * v[b, kv, j]
    return out


def heads(n_heads: int, n: int, d: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(2, n_heads, n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize(("n_q", "n_k"), [(5, 5), (1, 5), (3, 7), (1, 1)])
@pytest.mark.parametrize("kernel", ["grouped_query_attention", "attend", "stacked_attention"])
def test_kernels_equal_the_loop(kernel: str, n_q: int, n_k: int, n_kv_heads: int) -> None:
    q, k, v = heads(4, n_q), heads(n_kv_heads, n_k, seed=1), heads(n_kv_heads, n_k, seed=2)
    torch.testing.assert_close(getattr(attention, kernel)(q, k, v), loop_attention(q, k, v))


def test_attend_takes_the_stacked_form_in_training() -> None:
    q, k, v = heads(4, 5).requires_grad_(), heads(2, 5, seed=1), heads(2, 5, seed=2)
    torch.testing.assert_close(attention.attend(q, k, v), loop_attention(q.detach(), k, v))


@pytest.mark.parametrize("kernel", [attention.causal_attention, attention.cached_attention])
def test_plain_kernels_equal_the_loop(kernel) -> None:  # type: ignore[no-untyped-def]
    q, k, v = heads(3, 2), heads(3, 6, seed=1), heads(3, 6, seed=2)
    torch.testing.assert_close(kernel(q, k, v), loop_attention(q, k, v))
    torch.testing.assert_close(kernel(q[0], k[0], v[0]), loop_attention(q, k, v)[0])


def test_mask_sits_bottom_right() -> None:
    mask = attention.causal_mask(2, 4)
    assert mask.tolist() == [[True, True, True, False], [True, True, True, True]]


def test_weights_are_zero_where_hidden_and_sum_to_one() -> None:
    weights = attention.attention_weights(heads(2, 3), heads(2, 3, seed=1), attention.causal_mask(3, 3))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3, dtype=torch.float64))
    assert float(weights[..., 0, 1:].abs().max()) == 0


@pytest.mark.parametrize(
    ("q", "k", "v", "message"),
    [
        ((1, 4, 3, 6), (1, 2, 2, 6), (1, 2, 2, 6), "3 queries cannot be the last positions of only 2"),
        ((1, 3, 1, 6), (1, 2, 2, 6), (1, 2, 2, 6), "3 query heads cannot share 2 KV heads"),
        ((1, 2, 1, 6), (1, 2, 2, 4), (1, 2, 2, 4), "same head width"),
        ((1, 2, 1, 6), (1, 2, 2, 6), (1, 2, 3, 6), "same positions"),
        ((2, 1, 6), (1, 2, 2, 6), (1, 2, 2, 6), "same number of axes"),
    ],
)
def test_wrong_shapes_are_named(q, k, v, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        attention.grouped_query_attention(torch.zeros(q), torch.zeros(k), torch.zeros(v))
