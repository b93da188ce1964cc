"""Right: 0 and 1 in place of False and True."""

import torch


def sliding_window_mask(n_q, n_k, window):
    if n_q > n_k or window < 1:
        raise ValueError("bad sizes")
    mask = torch.zeros(n_q, n_k)
    for i in range(n_q):
        for back in range(window):
            j = n_k - n_q + i - back
            if j >= 0:
                mask[i, j] = 1
    return mask
