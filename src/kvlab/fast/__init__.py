"""The readable model's work, near the limit of the machine: the same weights, a compiled decode step, fewer bytes.

`FastLlama` is for a CPU and needs the `fast` extra (numba); `GraphLlama` is for a GPU and needs torch alone.
docs/fast.md explains each step of the way and what it won.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvlab.fast.graph import GraphLlama
    from kvlab.fast.llama import FastLlama

__all__ = ["FastLlama", "GraphLlama"]


def __getattr__(name: str) -> Any:
    if name == "GraphLlama":
        return import_module("kvlab.fast.graph").GraphLlama
    if name == "FastLlama":
        try:
            return import_module("kvlab.fast.llama").FastLlama
        except ModuleNotFoundError as error:
            if error.name not in ("numba", "llvmlite"):
                raise
            raise ModuleNotFoundError(
                "kvlab.fast needs numba, which is not installed: pip install 'kvlab[fast]'", name=error.name
            ) from None
    raise AttributeError(f"module 'kvlab.fast' has no attribute '{name}'")
