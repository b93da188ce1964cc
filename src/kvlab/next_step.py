"""One sentence under an error that says what to do next, for the errors that a learner meets without having made one.

The traceback stays as it is. `explain_errors()` in a notebook, or `--ext=kvlab.next_step` for a kernel (`kvlab lab`
starts its kernels so), makes IPython call `after_cell` when a cell has run. Without the second, nothing of this package
is there in a kernel that was just started, so a restarted kernel could not be explained.
"""

from __future__ import annotations

import symtable
import sys
import traceback
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from kvlab import session

ABOVE = "Run → Run All Above Selected Cell (Colab: Runtime → Run before; VS Code: Execute Above Cells)"
MEMORY = "not enough memory for what this line asks for: a smaller array? Else close other notebooks, restart the kernel, set FAST = True, and run all cells."
CONSTANTS = {"none": "None", "null": "None", "true": "True", "false": "False"}
"""What other languages write, and what Python writes."""

_PLAIN = ("collections", "copy", "functools", "heapq", "itertools", "json", "math", "os", "random", "re", "statistics")
MODULES = {
    **{name: f"import {name}" for name in (*_PLAIN, "sys", "time", "numpy", "torch")},
    "np": "import numpy as np",
    "plt": "import matplotlib.pyplot as plt",
}
"""Modules that a cell may want, with the line that brings them. Names that are also good names of variables are left out."""

_NETWORK = ("APIConnectionError", "ConnectError", "ConnectTimeout", "ConnectionError", "URLError", "gaierror")


def explain_errors() -> None:
    """From now on, print the next step under errors of this notebook. A second call, or one elsewhere, does nothing."""
    if "IPython" not in sys.modules:
        return
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is not None:
        load_ipython_extension(shell)


def load_ipython_extension(shell: Any) -> None:
    """What IPython calls for `%load_ext kvlab.next_step` and `--ext=kvlab.next_step`."""
    if after_cell not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", after_cell)


def after_cell(result: Any) -> None:
    """Print the next step when a cell has stopped. `result`: IPython's, with the error that ended the cell or None."""
    error = getattr(result, "error_in_exec", None)
    if error is not None and (sentence := next_step(error, session.cells())):
        print(f"Next step: {sentence}")


def next_step(error: BaseException, ran: Sequence[str] = ()) -> str:
    """What to do about an error, in a sentence; "" for an error that says so itself or that this module does not know.

    ran: the cells of this session in order; the last one has stopped with the error.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        return _missing_name(getattr(error, "name", None) or "", ran)
    if isinstance(error, ModuleNotFoundError):
        return _missing_package(error.name or "")
    if "OutOfMemoryError" in kinds:
        return 'the GPU is full: restart the kernel, write DEVICE = "cpu" into the parameters cell, and run all cells.'
    if is_out_of_memory(error):
        return MEMORY
    if isinstance(error, RuntimeError) and "on the same device" in str(error):
        return "two tensors lie on different devices: move one of them to the other's, `a.to(b.device)`."
    if kinds & set(_NETWORK):
        return 'this needs the network: check it, or go on without, with MODEL = "primer" and without LIVE = True.'
    return ""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine has too little memory, and not a `raise MemoryError(…)`, as of a full pool of blocks."""
    frames = traceback.extract_tb(error.__traceback__)
    raised = bool(frames) and (frames[-1].line or "").startswith("raise")
    return (isinstance(error, MemoryError) and not raised) or "DefaultCPUAllocator" in str(error)


def _missing_name(name: str, ran: Sequence[str]) -> str:
    """A name without a value: from another cell of this notebook, a module, or Python's word for a constant."""
    released = session.notebook(ran)
    if name in given_elsewhere(ran, released):
        return f"`{name}` comes from another cell: run the cells above first, {ABOVE}."
    if name in CONSTANTS:
        return f"Python writes `{CONSTANTS[name]}`."
    if name in MODULES and released:
        return f"`{name}` is not imported in this notebook: `{MODULES[name]}`."
    return ""


def given_elsewhere(ran: Sequence[str], released: Sequence[str]) -> frozenset[str]:
    """The names that get a value in another cell of this notebook: one above the last of `ran`, or one run before it.

    released: the cells of the released notebook. When the last cell is none of them, each of them may stand above it.
    """
    here = session.plain(ran[-1]) if ran else ""
    plain = [session.plain(source) for source in released]
    above = plain[: plain.index(here)] if here in plain else plain
    return _names(above) | _names(source for source in ran[:-1] if session.plain(source) != here)


def _names(sources: Iterable[str]) -> frozenset[str]:
    return frozenset(name for source in sources for name in names_of(source) or names_of(session.as_python(source)))


@cache
def names_of(source: str) -> frozenset[str]:
    """The names that a cell gives a value to, for all cells after it; empty for code that does not parse."""
    try:
        table = symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    )


def _missing_package(name: str) -> str:
    """Advice for a package of the course; a module of the learner's own is none of our business."""
    from kvlab.colab import NEEDED

    if name.split(".")[0] not in (*NEEDED, "kvlab", "anthropic", "fastapi", "openai", "uvicorn"):
        return ""
    if "google.colab" in sys.modules:
        return f"{name} is missing here: run the first code cell of this notebook again, it installs what is missing."
    return f"{name} is missing in this kernel: choose the kernel of the course's .venv, or run `make lab` again."
