"""Right: a loop that carries the tokens so far; torch scalars in float64."""

import torch


def predict_latency(model, gpu, prompt_len, n_new, batch=1):
    for count in (prompt_len, n_new, batch):
        if count < 1:
            raise ValueError(f"{count} is too few")
    per_token = model["n_layers"] * model["d_head"]
    so_far, clock, ends = 0, torch.zeros((), dtype=torch.float64), []
    for step in range(n_new):
        new = prompt_len if step == 0 else 1
        pairs = sum(range(so_far + 1, so_far + new + 1))
        so_far += new
        arithmetic = batch * 2 * (model["n_params"] * new + 2 * per_token * model["n_heads"] * pairs)
        values = model["n_params"] + batch * 2 * per_token * model["n_kv_heads"] * so_far
        bounds = arithmetic / gpu["peak_flops"], values * model["bytes_per_value"] / gpu["bandwidth"]
        clock = clock + max(bounds)
        ends.append(clock)
    tpot = (ends[-1] - ends[0]) / (n_new - 1) if n_new > 1 else float("nan")
    return {"ttft": ends[0], "tpot": tpot, "e2e": ends[-1], "steps": n_new}
