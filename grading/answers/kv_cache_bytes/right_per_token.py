"""Right: first one token, then all of them."""


def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    if min(n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value) < 0:
        raise ValueError("sizes cannot be negative")
    per_layer = 2 * n_kv_heads * d_head * bytes_per_value
    per_token = per_layer * n_layers
    return per_token * seq_len * batch
