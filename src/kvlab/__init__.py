"""kvlab: the kernels behind the course *LLM internals: KV cache and generation*.

Importing this package imports no torch: the heavy names are looked up when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvlab.loading import load, random_model
    from kvlab.paths import data_dir

__version__ = "0.1.0"
__all__ = ["__version__", "data_dir", "load", "random_model"]

_LAZY = {"data_dir": "kvlab.paths", "load": "kvlab.loading", "random_model": "kvlab.loading"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'kvlab' has no attribute '{name}'")
