"""From one vector per token to one vector per text."""

import torch


def mean_pool(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean over the real tokens of each row: (B, n, d) and (B, n) -> (B, d).

    `mask` is bool or 0/1: 1 for a token, 0 for padding, which may stand on either side.
    Raises ValueError for shapes that do not fit and for a row without any token.
    """
    real = _real(hidden, mask).unsqueeze(-1)
    wide = torch.promote_types(hidden.dtype, torch.float32)  # sums of 16-bit numbers round, and overflow
    total = hidden.to(wide).masked_fill(~real, 0).sum(1)  # not times 0, which lets NaN of the padding through
    return (total / real.sum(1)).to(hidden.dtype)


def last_token_pool(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The vector of each row's last real token: (B, n, d) and (B, n) -> (B, d).

    In a causal model only this token has seen the whole text. Mask and errors are those of `mean_pool`.
    """
    real = _real(hidden, mask)
    positions = torch.arange(real.shape[1], device=real.device)
    last = (real.long() * positions).argmax(
        1
    )  # in whole numbers: bfloat16 holds none of 257, 259, ...; 0 where the first token is the only one
    return hidden[torch.arange(hidden.shape[0], device=hidden.device), last]


def _real(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mask as truth values on the device of `hidden`."""
    if hidden.dim() != 3 or not hidden.is_floating_point():
        raise ValueError(f"hidden must be a float tensor (B, n, d), got {hidden.dtype} of shape {tuple(hidden.shape)}")
    if mask.shape != hidden.shape[:2]:
        raise ValueError(
            f"mask must be (B, n) = {tuple(hidden.shape[:2])} like the first axes of hidden, got {tuple(mask.shape)}"
        )
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise ValueError("mask must hold 0 or 1 (or False and True): 1 for a token, 0 for padding")
    empty = (mask != 0).sum(1) == 0
    if bool(empty.any()):
        raise ValueError(f"row {int(empty.int().argmax())} of the mask is empty: a text needs at least one token")
    return (mask != 0).to(hidden.device)
