"""Right: counts up while one more fits."""


def max_concurrent(model, gpu, seq_len, reserve_bytes=0):
    if seq_len <= 0 or reserve_bytes < 0:
        raise ValueError("seq_len from 1, reserve from 0")
    width = model["bytes_per_value"]
    each = width * seq_len * sum(2 * model["n_kv_heads"] * model["d_head"] for _ in range(model["n_layers"]))
    used, count = reserve_bytes + width * model["n_params"] + each, 0
    while used <= gpu["memory_bytes"]:
        used, count = used + each, count + 1
    return count
