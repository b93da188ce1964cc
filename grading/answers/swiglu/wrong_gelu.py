"""Wrong: gelu."""
# mistake: gelu

import torch


def swiglu(x, w_gate, w_up, w_down):
    if x.shape[-1] != w_gate.shape[0] or w_gate.shape != w_up.shape:
        raise ValueError("gate and up do not fit")
    if w_down.shape != (w_gate.shape[1], x.shape[-1]):
        raise ValueError("down does not fit")
    gate, up = x @ w_gate, x @ w_up
    return (torch.nn.functional.gelu(gate) * up) @ w_down
