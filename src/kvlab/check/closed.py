"""Close functions while an exercise is checked: calling one raises, however it was imported.

A Python function gets another body (`__code__`), so every reference to it is closed: `module.f`, a name imported from
the module earlier, a partial. A class gets an `__init__` that raises. A function written in C has neither, so its
module attribute is swapped, and names bound to it in the learner's notebook.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType
from typing import Any


class ClosedError(RuntimeError):
    """A closed function was called."""


_called: list[str] = []  # what was called in the running check, even if the learner's code caught the error


def refuse(name: str) -> None:
    """Raise ClosedError for a closed function; also notes the call. The bodies below call it."""
    _called.append(name)
    raise ClosedError(closed_text(name))


def closed_text(name: str) -> str:
    return (
        f"{name} is closed in this exercise, because it does the job that you are asked to write. "
        "Your answer may not call it."
    )


@contextmanager
def closed(names: list[str], namespace: dict[str, Any] | None = None) -> Iterator[list[str]]:
    """Close the functions with these dotted names; gives the list of those that get called.

    `namespace` is the notebook's, where names of C functions are swapped. Raises ValueError for a name that can't be
    found, before anything is closed.
    """
    targets = [(name, *_find(name)) for name in names]
    _called.clear()
    with ExitStack() as stack:
        for name, owner, attribute in targets:
            stack.callback(_close(name, owner, attribute, namespace if namespace is not None else {}))
        yield _called


def _find(name: str) -> tuple[Any, str]:
    """The object that holds the last part of a dotted name (a module or a class), and that part."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if not ".".join(parts[:cut]).startswith(error.name or "?"):
                raise  # the module is there, but something that it needs is not
            continue
        try:
            for part in parts[cut:-1]:
                owner = getattr(owner, part)
            if callable(getattr(owner, parts[-1])):
                return owner, parts[-1]
        except AttributeError:
            break
    raise ValueError(f"There is no function {name} to close; correct the `closed` list of this exercise.")


def _close(name: str, owner: Any, attribute: str, namespace: dict[str, Any]) -> Callable[[], None]:
    """Close one function and return what opens it again."""
    target = getattr(owner, attribute)
    if isinstance(target, type):
        return _swap(target, "__init__", _raiser(name))
    inner = inspect.unwrap(target)  # the body behind decorators such as torch.no_grad
    if isinstance(inner, FunctionType):
        return _swap(inner, "__code__", _code(name, inner))
    undo = [_swap(owner, attribute, _raiser(name))]
    for key in [key for key, value in namespace.items() if value is target]:
        undo.append(_swap_key(namespace, key, _raiser(name)))

    def reopen() -> None:
        for step in reversed(undo):
            step()

    return reopen


def _swap(owner: Any, attribute: str, value: Any) -> Callable[[], None]:
    own = attribute in vars(owner) if isinstance(owner, type) else True
    before = getattr(owner, attribute)
    setattr(owner, attribute, value)
    # A class that only inherits `__init__` gets no attribute of its own back.
    return (lambda: setattr(owner, attribute, before)) if own else (lambda: delattr(owner, attribute))


def _swap_key(namespace: dict[str, Any], key: str, value: Any) -> Callable[[], None]:
    before = namespace[key]
    namespace[key] = value
    return lambda: namespace.__setitem__(key, before)


def _raiser(name: str) -> Callable[..., None]:
    def raiser(*args: Any, **kwargs: Any) -> None:
        refuse(name)

    return raiser


def _code(name: str, function: FunctionType) -> CodeType:
    """A body that refuses. It runs with the globals of the function it replaces, so it imports what it needs."""
    spot: dict[str, Any] = {}
    text = f"def refused(*args, **kwargs):\n    import kvlab.check.closed as c\n    c.refuse({name!r})\n"
    exec(compile(text, __file__, "exec"), spot)
    # A body must have as many closure cells as the function; unused names are enough.
    return spot["refused"].__code__.replace(co_freevars=function.__code__.co_freevars, co_name=function.__name__)
