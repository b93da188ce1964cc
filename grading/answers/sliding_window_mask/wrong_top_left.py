"""Wrong: row i is taken for position i."""
# mistake: top left

import torch


def sliding_window_mask(n_q, n_k, window):
    if n_q > n_k or window < 1:
        raise ValueError("more queries than keys, or no window")
    i = torch.arange(n_q)[:, None]
    j = torch.arange(n_k)[None, :]
    return (j <= i) & (j > i - window)
