"""Planting a fault: one function is swapped for a wrong one, wherever kvlab has imported it, and swapped back."""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any


@dataclass(frozen=True)
class Fault:
    """One mistake. `target` is "module:attribute" or "module:Class.method"; `wrong` makes the wrong one from the right."""

    name: str
    summary: str
    target: str
    wrong: Callable[[Any], Any]


@contextmanager
def planted(name: str, faults: Mapping[str, Fault]) -> Iterator[Fault]:
    """Plant a fault for the length of the block.

    Raises ValueError for an unknown name, and where a fault is planted already: ended in the wrong order, the two
    would leave one behind.
    """
    if name not in faults:
        raise ValueError(f"there is no fault '{name}': choose one of {', '.join(faults)}")
    fault = faults[name]
    module_name, _, path = fault.target.partition(":")
    owner: Any = importlib.import_module(module_name)
    *parents, attribute = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    right = getattr(owner, attribute)
    if planted := getattr(right, "planted_fault", None):
        raise ValueError(f"'{name}' cannot be planted where '{planted}' is planted already: end that block first")
    wrong = wraps(right)(fault.wrong(right))
    wrong.planted_fault = name  # type: ignore[attr-defined]
    if parents:
        setattr(owner, attribute, wrong)
    else:
        _swap(right, wrong)
    try:
        yield fault
    finally:
        if parents:
            setattr(owner, attribute, right)
        else:
            _swap(wrong, right)


def _swap(old: Any, new: Any) -> None:
    """Replace a function in every kvlab module that holds it, so that `from kvlab.x import y` is covered too."""
    for name, module in list(sys.modules.items()):
        if name == "kvlab" or name.startswith("kvlab."):
            for key, value in list(vars(module).items()):
                if value is old:
                    setattr(module, key, new)
