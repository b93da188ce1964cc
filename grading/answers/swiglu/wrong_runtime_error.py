"""Wrong: leaves the shapes to torch."""
# mistake: shapes unchecked

import torch


def swiglu(x, w_gate, w_up, w_down):
    gate, up = x @ w_gate, x @ w_up
    return (torch.nn.functional.silu(gate) * up) @ w_down
