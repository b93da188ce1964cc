"""Execute an answer cell as a notebook would: the names it may use, IPython's magics, `kvlab` without what is closed."""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import math
import sys
from collections.abc import Callable, Coroutine, Sequence
from types import ModuleType
from typing import Any

from . import steps

_RUN = frozenset({"time", "capture"})  # magics whose body is the answer's own code and leaves its names behind


def prepare(course: str) -> None:
    """Make `kvlab` importable from the folder `course`; nothing of it is imported yet."""
    sys.path.insert(0, course)


class _ClosingTorch(importlib.abc.MetaPathFinder):
    """Close functions of torch as soon as it is imported: most answers in numpy never do, and save its second."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            module.set_num_threads(1)
            _keep_closed(self.names)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def close(names: Sequence[str]) -> Callable[[], list[str]]:
    """Close functions of torch (kvlab's own are stubs already). Returns what lists the closed calls made."""
    if "torch" in sys.modules:
        _keep_closed(names)
    else:
        sys.meta_path.insert(0, _ClosingTorch(names))

    def calls() -> list[str]:
        module = sys.modules.get("kvlab.check.closed")
        return module._called if module else []

    return calls


def _keep_closed(names: Sequence[str]) -> None:
    if names:
        from kvlab.check import closed

        manager = closed.closed(list(names))
        manager.__enter__()  # for as long as the process lives:
        sys.modules[closed.__name__].__dict__["_kept"] = manager  # it would open all again when it is collected
        for name in names:
            _close_aliases(name, closed.refuse)


def _close_aliases(name: str, refuse: Callable[[str], None]) -> None:
    """Close the names under which torch keeps the same function elsewhere, as far as they are known."""
    import torch

    last = name.rpartition(".")[2]
    for owner in (torch, torch._C._nn, torch.ops.aten, torch.nn.functional):
        if hasattr(owner, last):
            setattr(owner, last, _Closed(name, refuse))
    for inner in dir(torch):
        if inner.startswith(f"_{last}") or inner.startswith(f"_{last.removesuffix('_attention')}"):
            setattr(torch, inner, _Closed(name, refuse))


class _Closed:
    """Stands for a closed operator and its overloads; only a call is refused, since torch itself looks at them."""

    def __init__(self, name: str, refuse: Callable[[str], None]) -> None:
        self._name, self._refuse = name, refuse

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._refuse(self._name)

    def __getattr__(self, name: str) -> _Closed:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _Lazy(ModuleType):
    """Stands for a module that is imported when it is first used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


def execute(source: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """(the names that the cell leaves, the error it stopped with or None)."""
    import numpy as np

    torch = sys.modules.get("torch") or _Lazy("torch")
    module = ModuleType("__main__")
    names = vars(module)
    names |= {"__builtins__": __builtins__, "math": math, "np": np, "torch": torch, "display": _ignore}
    names["get_ipython"] = lambda: _Shell(names)
    sys.modules["__main__"] = module
    linecache.cache[steps.ANSWER_FILE] = (len(source), None, source.splitlines(keepends=True), steps.ANSWER_FILE)
    try:
        _run(source, names)
    except BaseException as error:  # sys.exit in a cell ends the cell, here as in a notebook
        return names, steps.raised(error, source)
    return names, None


def _run(source: str, names: dict[str, Any]) -> None:
    made = eval(_compile(source.removeprefix("\ufeff")), names)
    if isinstance(made, Coroutine):  # a cell may use `await` at its top
        with contextlib.suppress(StopIteration):
            while True:
                made.send(None)


def _compile(source: str) -> Any:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return compile(source, steps.ANSWER_FILE, "exec", flags)
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager  # only for cells that need it: it is slow

        return compile(TransformerManager().transform_cell(source), steps.ANSWER_FILE, "exec", flags)


def _ignore(*args: Any, **kwargs: Any) -> None:
    """What `display` does here."""


class _Shell:
    """Stands for IPython's shell: magics that only show or measure do nothing, the rest of the cell counts."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.user_ns = names

    def run_line_magic(self, name: str, line: str, **_: Any) -> None:
        if name in _RUN and line.strip():
            _run(line, self.user_ns)

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        if name in _RUN:
            _run(cell, self.user_ns)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _ignore
