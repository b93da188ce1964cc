"""Wrong: one position too many."""
# mistake: one position more


def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    if min(n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value) < 0:
        raise ValueError("sizes cannot be negative")
    return 2 * n_layers * n_kv_heads * d_head * (seq_len + 1) * batch * bytes_per_value
