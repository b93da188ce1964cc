"""Wrong: does not look at w_down."""
# mistake: shapes unchecked

import torch


def swiglu(x, w_gate, w_up, w_down):
    if x.shape[-1] != w_gate.shape[0] or w_gate.shape != w_up.shape:
        raise ValueError("gate and up do not fit")
    gate, up = x @ w_gate, x @ w_up
    return (torch.nn.functional.silu(gate) * up) @ w_down
