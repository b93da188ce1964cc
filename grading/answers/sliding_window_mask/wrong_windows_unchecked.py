"""Wrong: does not look at the window."""
# mistake: windows below 1 pass

import torch


def sliding_window_mask(n_q, n_k, window):
    if n_q > n_k:
        raise ValueError("more queries than keys, or no window")
    i = torch.arange(n_q)[:, None] + n_k - n_q
    j = torch.arange(n_k)[None, :]
    return (j <= i) & (j > i - window)
