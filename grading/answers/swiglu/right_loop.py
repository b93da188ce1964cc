"""Right: one feature after the other."""

import torch


def swiglu(x, w_gate, w_up, w_down):
    if not (x.shape[-1] == w_gate.shape[0] == w_up.shape[0] == w_down.shape[1]):
        raise ValueError("the width of x")
    if not (w_gate.shape[1] == w_up.shape[1] == w_down.shape[0]):
        raise ValueError("the number of features")
    out = torch.zeros_like(x)
    for f in range(w_down.shape[0]):
        gate = (x * w_gate[:, f]).sum(-1, keepdim=True)
        up = (x * w_up[:, f]).sum(-1, keepdim=True)
        out += gate * torch.sigmoid(gate) * up * w_down[f]
    return out
