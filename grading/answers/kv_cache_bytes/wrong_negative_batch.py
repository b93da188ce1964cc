"""Wrong: a negative batch is taken."""
# mistake: some sizes unchecked


def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    if min(n_layers, n_kv_heads, d_head, seq_len, bytes_per_value) < 0:
        raise ValueError("negative")
    return 2 * n_layers * n_kv_heads * d_head * seq_len * batch * bytes_per_value
