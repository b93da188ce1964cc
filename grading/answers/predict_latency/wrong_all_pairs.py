"""Wrong: n * n pairs."""
# mistake: all pairs

import math


def predict_latency(model, gpu, prompt_len, n_new, batch=1):
    if prompt_len < 1 or n_new < 1 or batch < 1:
        raise ValueError("at least one of each")
    width = model["bytes_per_value"]
    weights = model["n_params"] * width
    cache = 2 * model["n_layers"] * model["n_kv_heads"] * model["d_head"] * width
    pair = 4 * model["n_layers"] * model["n_heads"] * model["d_head"]

    def seconds(tokens, pairs, held):
        flops = batch * (2 * model["n_params"] * tokens + pair * pairs)
        moved = weights + batch * cache * held
        return max(flops / gpu["peak_flops"], moved / gpu["bandwidth"])

    ttft = seconds(prompt_len, prompt_len * prompt_len, prompt_len)
    decode = [seconds(1, prompt_len + i, prompt_len + i) for i in range(1, n_new)]
    tpot = sum(decode) / len(decode) if decode else math.nan
    return {"ttft": ttft, "tpot": tpot, "e2e": ttft + sum(decode)}
