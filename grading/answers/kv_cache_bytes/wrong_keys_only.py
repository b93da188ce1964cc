"""Wrong: counts K and forgets V."""
# mistake: one tensor only


def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    if min(n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value) < 0:
        raise ValueError("sizes cannot be negative")
    return n_layers * n_kv_heads * d_head * seq_len * batch * bytes_per_value
