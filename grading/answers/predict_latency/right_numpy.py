"""Right: all passes at once in numpy."""

import numpy as np


def predict_latency(model, gpu, prompt_len, n_new, batch=1):
    if min(prompt_len, n_new, batch) <= 0:
        raise ValueError("counts")
    n_params, layers, heads, kv_heads, d, width = (
        model[name] for name in ("n_params", "n_layers", "n_heads", "n_kv_heads", "d_head", "bytes_per_value")
    )
    held = prompt_len + np.arange(n_new, dtype=np.float64)
    tokens, pairs = np.ones(n_new), held.copy()
    tokens[0], pairs[0] = prompt_len, np.arange(1, prompt_len + 1).sum()
    compute = batch * (2 * n_params * tokens + 4 * layers * heads * d * pairs) / gpu["peak_flops"]
    memory = width * (n_params + 2 * batch * layers * kv_heads * d * held) / gpu["bandwidth"]
    times = np.maximum(compute, memory)
    tpot = times[1:].mean() if n_new > 1 else np.nan
    return {"ttft": times[0], "tpot": tpot, "e2e": times.sum()}
