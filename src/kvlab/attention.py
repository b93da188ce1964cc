"""Causal attention, from the plain definition to the form that the model uses.

Every function takes and returns heads as (..., n_heads, n, d_head) and scales scores by 1/sqrt(d_head)
(Vaswani et al., 2017, eq. 1). `q` holds the *last* n_q of the n_k positions in `k` and `v`: during prefill
n_q == n_k, during decode n_q == 1.
"""

import math

import torch
import torch.nn.functional as F


def causal_mask(n_q: int, n_k: int, device: torch.device | str | None = None) -> torch.Tensor:
    """Bool (n_q, n_k), True = may attend. Row i is position n_k - n_q + i, so the triangle sits bottom right.

    Raises ValueError when there are more queries than keys.
    """
    if n_q > n_k:
        raise ValueError(f"{n_q} queries cannot be the last positions of only {n_k} keys")
    return torch.ones(n_q, n_k, dtype=torch.bool, device=device).tril(n_k - n_q)


def sliding_window_mask(n_q: int, n_k: int, window: int, device: torch.device | str | None = None) -> torch.Tensor:
    """As `causal_mask`, but a position sees only itself and the window - 1 before it. Bool (n_q, n_k).

    Raises ValueError for more queries than keys, or a window below 1.
    """
    if window < 1:
        raise ValueError(f"a window holds at least the position itself, got {window}")
    return causal_mask(n_q, n_k, device).triu(n_k - n_q - window + 1)


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Scaled dot products, (..., n_q, d) and (..., n_k, d) -> (..., n_q, n_k)."""
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def attention_weights(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Softmax of the scores, (..., n_q, n_k); masked positions get exactly 0."""
    s = scores(q, k)
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    return s.softmax(-1)


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The plain definition: as many query heads as KV heads, (..., n_q, d) -> (..., n_q, d)."""
    check_shapes(q, k, v)
    return attention_weights(q, k, causal_mask(q.shape[-2], k.shape[-2], q.device)) @ v


def cached_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of the newest positions over a cache: the same definition, with n_q <= n_k.

    With one query the mask is all True: a cache only ever holds the past.
    """
    return causal_attention(q, k, v)


def group_queries(q: torch.Tensor, n_kv_heads: int) -> torch.Tensor:
    """Put query heads beside the KV head they read: (B, H, n, d) -> (B, n_kv_heads, H / n_kv_heads, n, d).

    Query head h reads KV head h // (H / n_kv_heads) (Ainslie et al., 2023, arXiv 2305.13245).
    """
    return q.unflatten(1, (n_kv_heads, q.shape[1] // n_kv_heads))


def grouped_query_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """q (B, n_heads, n_q, d); k, v (B, n_kv_heads, n_k, d) -> (B, n_heads, n_q, d), causal.

    No KV head is copied: all query heads of one group are multiplied with the same keys.
    """
    check_shapes(q, k, v)
    grouped = group_queries(q, k.shape[1])
    return causal_attention(grouped, k.unsqueeze(2), v.unsqueeze(2)).flatten(1, 2)


def stacked_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """`grouped_query_attention` as one batched product: the query heads of a group are stacked as rows.

    Used in training: on a CPU its backward pass takes less than half of the fused kernel's time.
    """
    batch, n_heads, n_q, d_head = q.shape
    n_kv_heads, n_k = k.shape[1], k.shape[2]
    rows = group_queries(q, n_kv_heads).reshape(batch * n_kv_heads, -1, d_head)
    hidden = ~causal_mask(n_q, n_k, q.device).repeat(n_heads // n_kv_heads, 1)
    bias = torch.zeros_like(hidden, dtype=q.dtype).masked_fill(hidden, -torch.inf)
    scored = torch.baddbmm(bias, rows, k.flatten(0, 1).transpose(1, 2), alpha=d_head**-0.5)
    return (scored.softmax(-1).to(v.dtype) @ v.flatten(0, 1)).view(batch, n_heads, n_q, d_head)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """What the model calls: `grouped_query_attention` with torch's fused kernel. Shapes as there.

    In a decode step the query heads of one group become the rows of one product, so that every key
    is read once; a tested equality holds it to the plain form above.
    """
    batch, n_heads, n_q, d_head = q.shape
    n_kv_heads, n_k = k.shape[1], k.shape[2]
    if q.requires_grad:
        return stacked_attention(q, k, v)
    if n_q == 1:
        rows = group_queries(q, n_kv_heads).squeeze(3)
        return F.scaled_dot_product_attention(rows, k, v).reshape(batch, n_heads, 1, d_head)
    if n_q == n_k:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=n_heads != n_kv_heads)
    mask = causal_mask(n_q, n_k, q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=n_heads != n_kv_heads)


def sliding_window_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int) -> torch.Tensor:
    """`attend` where each position sees the last `window` ones only, its own included. Shapes as there."""
    n_q, n_k = q.shape[2], k.shape[2]
    if n_q == 1 and n_k <= window:
        return attend(q, k, v)
    mask = sliding_window_mask(n_q, n_k, window, q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


def check_shapes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """ValueError with both shapes when q, k and v do not fit together."""
    if q.dim() < 2 or k.dim() != q.dim() or v.dim() != q.dim():
        raise ValueError(f"q, k and v need the same number of axes, got {q.dim()}, {k.dim()} and {v.dim()}")
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(f"k and v must hold the same positions, got shapes {tuple(k.shape)} and {tuple(v.shape)}")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k must have the same head width, got {q.shape[-1]} and {k.shape[-1]}")
    if q.dim() == 4 and q.shape[1] % k.shape[1]:
        raise ValueError(f"{q.shape[1]} query heads cannot share {k.shape[1]} KV heads evenly")
    if q.shape[-2] > k.shape[-2]:
        raise ValueError(f"{q.shape[-2]} queries cannot be the last positions of only {k.shape[-2]} keys")
