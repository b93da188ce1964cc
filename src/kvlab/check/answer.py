"""Which text of an answer a check has seen: a short hash of the cell that defines it, kept in the panel's output.

`kvlab progress` compares it with the answer as saved, so an answer that was edited after its check is not called solved.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import re
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from kvlab import session
from kvlab.check.panel import Panel
from kvlab.handin.names import look

KEY = "kvlab"
"""The key in the metadata of a panel's output."""

_LINES_THAT_IPYTHON_REWRITES = ("%", "!", "get_ipython()")


def fingerprint(source: str) -> str:
    """16 hex digits for the text of a cell. Blank edges, spaces at line ends, magics and shell lines don't count."""
    lines = [line.rstrip() for line in source.splitlines()]
    kept = [line for line in lines if not line.lstrip().startswith(_LINES_THAT_IPYTHON_REWRITES)]
    return hashlib.sha256("\n".join(kept).strip("\n").encode()).hexdigest()[:16]


def record(panel: Panel, target: Any) -> dict[str, Any]:
    """What the output of a check carries: exercise, state, and the hash of the answer's cell.

    target: what the exercise's name stands for in the notebook. The hash is None when no cell is known for it, as for
    an object that is neither a function nor a class with methods.
    """
    source = cell_of(target)
    seen = None if source is None else fingerprint(source)
    return {KEY: {"exercise": panel.name, "state": panel.state.name.lower(), "answer": seen}}


def superseded(name: str, source: str, ran: Sequence[str]) -> bool:
    """Whether a newer answer cell was run than the one that `source`, the text behind the exercise's name, comes from.

    ran: the cells of this session, in order. A newer one that has replaced nothing has stopped with an error, or defines
    another name. Code that comes from none of these cells is not judged.
    """
    seen = fingerprint(source)
    marker = re.compile(rf"\s*#\s*exercise:\s*{re.escape(name)}\b")
    for cell in reversed(ran):
        if seen in (fingerprint(cell), fingerprint(session.as_python(cell))):
            return False
        if marker.match(cell):
            return any(seen in (fingerprint(old), fingerprint(session.as_python(old))) for old in ran)
    return False


def borrowed(source: str, namespace: dict[str, Any]) -> list[str]:
    """The names that an answer cell takes from other cells of the notebook. Only the answer cell is graded."""
    return [name for name in look(source).outside if name in namespace]


def cell_of(target: Any) -> str | None:
    """The text of the cell that defines a function or a class, as IPython keeps it; None when it keeps none."""
    if isinstance(target, type):
        members = [getattr(item, "__func__", getattr(item, "fget", item)) for item in vars(target).values()]
        functions = [item for item in members if isinstance(item, FunctionType)]
    else:
        functions = [target] if isinstance(target, FunctionType) else []
    for function in functions:
        try:
            file = inspect.unwrap(function).__code__.co_filename
        except (ValueError, AttributeError):  # wrapped in a circle, or around something that has no body
            continue
        if lines := linecache.getlines(file):
            return "".join(lines)
    return None
