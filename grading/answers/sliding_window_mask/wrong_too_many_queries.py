"""Wrong: does not compare n_q with n_k."""
# mistake: too many queries pass

import torch


def sliding_window_mask(n_q, n_k, window):
    if window < 1:
        raise ValueError("more queries than keys, or no window")
    i = torch.arange(n_q)[:, None] + n_k - n_q
    j = torch.arange(n_k)[None, :]
    return (j <= i) & (j > i - window)
