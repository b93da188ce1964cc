"""One sentence under an error that says what to do next, for the errors that a learner meets without having made one.

The traceback stays as it is. `explain_errors()` in a notebook, or `--ext=kvlab.next_step` for a kernel (`kvlab lab`
starts its kernels so), makes IPython call `after_cell` when a cell has run. Without the second, nothing of this package
is there in a kernel that was just started, so a restarted kernel could not be explained.
"""

from __future__ import annotations

import json
import symtable
import sys
from pathlib import Path
from typing import Any

ABOVE = "Run → Run All Above Selected Cell (Colab: Runtime → Run before; VS Code: Execute Above Cells)"
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
    if error is not None and (sentence := next_step(error)):
        print(f"Next step: {sentence}")


def next_step(error: BaseException) -> str:
    """What to do about an error, in a sentence; "" for an error that says so itself or that this module does not know."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    told = str(error)
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        name = getattr(error, "name", None) or ""
        return f"`{name}` comes from another cell: run the cells above first, {ABOVE}." if name in defined() else ""
    if isinstance(error, ModuleNotFoundError):
        return _missing_package(error.name or "")
    if "OutOfMemoryError" in kinds:
        return 'the GPU is full: restart the kernel, write DEVICE = "cpu" into the parameters cell, and run all cells.'
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in told:
        return "the memory is full: close other notebooks, restart the kernel, set FAST = True, and run all cells."
    if isinstance(error, RuntimeError) and "on the same device" in told:
        return "two tensors lie on different devices: move one of them to the other's, `a.to(b.device)`."
    if kinds & set(_NETWORK):
        return 'this needs the network: check it, or go on without, with MODEL = "primer" and without LIVE = True.'
    return ""


def defined() -> frozenset[str]:
    """Every name that some cell of the released notebooks gives a value to; empty where there are no notebooks."""
    from kvlab.paths import notebooks_dir

    try:
        paths = sorted(notebooks_dir().glob("*.ipynb"))
    except FileNotFoundError:
        return frozenset()
    return frozenset(name for path in paths for source in _code(path) for name in names_of(source))


def names_of(source: str) -> frozenset[str]:
    """The names that a cell gives a value to, for all cells after it; empty for code that does not parse."""
    try:
        table = symtable.symtable(source, "cell", "exec")
    except SyntaxError:
        return frozenset()
    return frozenset(
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    )


def _code(path: Path) -> list[str]:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # a damaged notebook must not hide the error that is being explained


def _missing_package(name: str) -> str:
    """Advice for a package of the course; a module of the learner's own is none of our business."""
    from kvlab.colab import NEEDED

    if name.split(".")[0] not in (*NEEDED, "kvlab", "anthropic", "fastapi", "openai", "uvicorn"):
        return ""
    if "google.colab" in sys.modules:
        return f"{name} is missing here: run the first code cell of this notebook again, it installs what is missing."
    return f"{name} is missing in this kernel: choose the kernel of the course's .venv, or run `make lab` again."
