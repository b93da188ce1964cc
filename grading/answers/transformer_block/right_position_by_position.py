"""Right: one new position after the other, each on a growing cache."""

import torch


def transformer_block(x, weights, n_heads, n_kv_heads, positions, cache=None):
    missing = {"attn_norm", "wq", "wk", "wv", "wo", "mlp_norm", "w_gate", "w_up", "w_down"} - weights.keys()
    if missing or n_heads % n_kv_heads or len(positions) != x.shape[1]:
        raise ValueError(f"missing {missing}, or heads and positions that do not fit")
    d = weights["wq"].shape[1] // n_heads
    k = v = torch.zeros(len(x), n_kv_heads, 0, d)
    if cache is not None:
        k, v = cache
    rows = []
    for i, position in enumerate(positions.tolist()):
        row = x[:, i]
        a = torch.nn.functional.rms_norm(row, row.shape[-1:], weights["attn_norm"], 1e-5)
        q, new_k, new_v = ((a @ weights[name]).unflatten(-1, (-1, d)) for name in ("wq", "wk", "wv"))
        k = torch.cat([k, turned(new_k, position).unsqueeze(2)], dim=2)
        v = torch.cat([v, new_v.unsqueeze(2)], dim=2)
        q = turned(q, position)
        heads = []
        for head in range(n_heads):
            shared = head // (n_heads // n_kv_heads)
            p = torch.softmax((k[:, shared] @ q[:, head, :, None]).squeeze(-1) * d**-0.5, dim=-1)
            heads.append((p.unsqueeze(1) @ v[:, shared]).squeeze(1))
        h = row + torch.cat(heads, dim=-1) @ weights["wo"]
        m = torch.nn.functional.rms_norm(h, h.shape[-1:], weights["mlp_norm"], 1e-5)
        gate = m @ weights["w_gate"]
        rows.append(h + (gate * gate.sigmoid() * (m @ weights["w_up"])) @ weights["w_down"])
    return torch.stack(rows, dim=1), (k, v)


def turned(x, position):
    half = x.shape[-1] // 2
    angles = position * 10000.0 ** (-torch.arange(half) / half)
    a, b = x.split(half, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)
