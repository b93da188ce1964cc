"""Is there room for a cache of this size? Asked before its memory is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlab.arithmetic import format_bytes
from kvlab.machine import available_memory

if TYPE_CHECKING:
    import torch


def check_room_for(what: str, n_bytes: int, advice: str, device: torch.device | None = None) -> None:
    """ValueError when `n_bytes` are more than what is free on the device (None: the computer's own memory).

    Without it torch would answer with its allocator's message, or the machine would take the memory page by page and
    stop the process when none is left.
    """
    if device is not None and device.type == "meta":  # shapes without memory
        return
    if device is not None and device.type == "cuda":
        import torch

        free = torch.cuda.mem_get_info(device)[0]
    else:
        free = available_memory()
    if n_bytes > free:
        raise ValueError(f"{what} would take {format_bytes(n_bytes)}, but {format_bytes(free)} are free: {advice}")
