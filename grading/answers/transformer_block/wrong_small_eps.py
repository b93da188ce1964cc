"""Wrong: eps of 1e-6."""
# mistake: another eps

import math

import torch

NAMES = ("attn_norm", "wq", "wk", "wv", "wo", "mlp_norm", "w_gate", "w_up", "w_down")


def norm(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def rope(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)


def split(x, heads):
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def transformer_block(x, weights, n_heads, n_kv_heads, positions, cache=None):
    if n_heads % n_kv_heads:
        raise ValueError("heads")
    if positions.shape != x.shape[1:2]:
        raise ValueError("positions")
    if not set(NAMES) <= set(weights):
        raise ValueError("weights")
    a = norm(x, weights["attn_norm"])
    q = rope(split(a @ weights["wq"], n_heads), positions)
    k = rope(split(a @ weights["wk"], n_kv_heads), positions)
    v = split(a @ weights["wv"], n_kv_heads)
    n_past = 0
    if cache is not None:
        n_past = cache[0].shape[2]
        k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    each = n_heads // n_kv_heads
    scores = q @ k.repeat_interleave(each, dim=1).transpose(2, 3) / math.sqrt(q.shape[-1])
    later = torch.ones(scores.shape[2:], dtype=torch.bool).triu(n_past + 1)
    mixed = torch.softmax(scores.masked_fill(later, -math.inf), dim=-1) @ v.repeat_interleave(each, dim=1)
    h = x + mixed.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1) @ weights["wo"]
    m = norm(h, weights["mlp_norm"])
    y = h + (torch.nn.functional.silu(m @ weights["w_gate"]) * (m @ weights["w_up"])) @ weights["w_down"]
    return y, (k, v)
