"""Wrong: adds the reserve."""
# mistake: reserve added


def max_concurrent(model, gpu, seq_len, reserve_bytes=0):
    if seq_len < 1:
        raise ValueError("seq_len")
    if reserve_bytes < 0:
        raise ValueError("reserve_bytes")
    weights = model["n_params"] * model["bytes_per_value"]
    per_token = 2 * model["n_layers"] * model["n_kv_heads"] * model["d_head"] * model["bytes_per_value"]
    room = gpu["memory_bytes"] - weights + reserve_bytes
    return max(0, int(room // (per_token * seq_len)))
