"""Right: numpy with einsum, one more axis for the group, float64."""

import numpy as np


def transformer_block(x, weights, n_heads, n_kv_heads, positions, cache=None):
    x, positions = np.asarray(x, dtype=np.float64), np.asarray(positions)
    names = ["attn_norm", "wq", "wk", "wv", "wo", "mlp_norm", "w_gate", "w_up", "w_down"]
    try:
        g1, wq, wk, wv, wo, g2, w_gate, w_up, w_down = (np.asarray(weights[name], dtype=np.float64) for name in names)
    except KeyError as error:
        raise ValueError(f"no {error}") from None
    (batch, n, _), d = x.shape, wq.shape[1] // n_heads
    if n_heads % n_kv_heads != 0 or positions.shape != (n,):
        raise ValueError("heads or positions")
    wave = np.exp(1j * np.outer(positions, 1e4 ** (-np.arange(0, d, 2) / d)))

    def turn(rows):
        z = (rows[..., : d // 2] + 1j * rows[..., d // 2 :]) * wave
        return np.concatenate([z.real, z.imag], -1)

    a = x / np.sqrt(np.mean(x**2, -1, keepdims=True) + 1e-5) * g1
    q = turn(np.moveaxis((a @ wq).reshape(batch, n, n_heads, d), 2, 1))
    k = turn(np.moveaxis((a @ wk).reshape(batch, n, n_kv_heads, d), 2, 1))
    v = np.moveaxis((a @ wv).reshape(batch, n, n_kv_heads, d), 2, 1)
    if cache is not None:
        k, v = (np.concatenate([old, new], 2) for old, new in zip(cache, (k, v), strict=True))
    s = np.einsum("bghid,bgjd->bghij", q.reshape(batch, n_kv_heads, -1, n, d), k) * d**-0.5
    s = np.where(np.tri(n, k.shape[2], k.shape[2] - n, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    mixed = np.einsum("bghij,bgjd->bighd", p / p.sum(-1, keepdims=True), v).reshape(batch, n, -1)
    h = x + mixed @ wo
    m = h / np.sqrt(np.mean(h**2, -1, keepdims=True) + 1e-5) * g2
    gate = m @ w_gate
    return h + (gate / (1 + np.exp(-gate)) * (m @ w_up)) @ w_down, (k, v)
