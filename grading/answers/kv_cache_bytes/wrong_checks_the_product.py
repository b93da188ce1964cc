"""Wrong: looks at the sign of the product, where two negatives cancel."""
# mistake: checks the product


def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    size = 2 * n_layers * n_kv_heads * d_head * seq_len * batch * bytes_per_value
    if size < 0:
        raise ValueError("sizes cannot be negative")
    return size
